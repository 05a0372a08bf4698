"""All findings in order of what they cost, what was checked, and what was unobserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.finding import Check, CheckState, Overview, Severity, recurring
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects import CHECKS, workload
from otel_rl.report.subjects.changes import change_sentences

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Subject
    from otel_rl.report.core.finding import Finding


#: Of a run that was imported, for what is not judged by values: what was not dumped may have happened all the same.
_WHY = "a dump has only rows of samples"
_RECURRING = frozenset(recurring(code) for code, *_ in change_sentences.PLACES.values())


def examine(collected: Collected) -> Overview:
    """Ask every subject for its findings, each with what those before it have found, and for its checks."""
    known: dict[str, list[Finding]] = {}
    for subject in collected.subjects:
        known[subject.name] = subject.findings(collected, known)
    findings = [finding for of_subject in known.values() for finding in of_subject]
    checks = [check for subject in sorted(collected.subjects, key=_place) for check in subject.checks(collected)]
    if summarise(collected).imported_from:
        seen = [check for check in checks if check.series or check.state is CheckState.TOO_LITTLE]
        checks = seen + [Check.not_recorded(one.what, _WHY, one.codes) for one in checks if one not in seen]
    return Overview(sorted(findings, key=_order), checks, workload.extent(collected))


def _order(finding: Finding) -> tuple[int, bool, bool, float]:
    """Order by the gravest of each chain; what ended the run comes before what it cost to run.

    Of notices what has changed comes before what the program does all along.
    """
    is_ending = finding.code in ("ended", "missing_ranks")
    is_usual = finding.gravest is Severity.NOTICE and (finding.onset is None or finding.code in _RECURRING)
    return finding.gravest.order, not is_ending, is_usual, -(finding.cost or 0.0)


def _place(subject: Subject) -> int:
    return CHECKS.index(subject.name) if subject.name in CHECKS else len(CHECKS)
