"""All findings in order of what they cost, what was checked, and what was unobserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.finding import Overview
from otel_rl.report.subjects import CHECKS, workload

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Subject
    from otel_rl.report.core.finding import Finding


def examine(collected: Collected) -> Overview:
    """Ask every subject for its findings, each with what those before it have found, and for its checks."""
    known: dict[str, list[Finding]] = {}
    for subject in collected.subjects:
        known[subject.name] = subject.findings(collected, known)
    findings = [finding for of_subject in known.values() for finding in of_subject]
    checks = [check for subject in sorted(collected.subjects, key=_place) for check in subject.checks(collected)]
    return Overview(sorted(findings, key=_order), checks, workload.extent(collected))


def _order(finding: Finding) -> tuple[int, bool, float]:
    """Order by the gravest of each chain; what ended the run comes before what it cost to run."""
    return finding.gravest.order, finding.code not in ("ended", "missing_ranks"), -(finding.cost or 0.0)


def _place(subject: Subject) -> int:
    return CHECKS.index(subject.name) if subject.name in CHECKS else len(CHECKS)
