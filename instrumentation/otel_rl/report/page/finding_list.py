"""The first section of the page: what deserves a look, what was checked, and what could not be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import human, output
from otel_rl.report.core.finding import CheckState, Severity

if TYPE_CHECKING:
    from otel_rl.report.core.blocks import Section
    from otel_rl.report.core.finding import Check, Finding, Overview

_TONES = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.NOTICE: "notice"}
_SYMPTOMS = 6
#: An English word that begins a sentence, which the name of a function or library is not.
_FIRST_WORD = re.compile(r"[A-Z]?[a-z]*[ ,]")


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One finding as the page shows it; ``chart`` and ``rows`` are links within the page."""

    tone: str
    text: str
    rows: str
    chart: str
    evidence: list[str]
    symptoms: list[str]
    look_at: str


def entries(overview: Overview, sections: list[Section], figures: dict[str, str]) -> list[FindingEntry]:
    """Return all findings, with links into the page; ``figures`` are its charts by the key of what they show."""
    filled = {section.key for section in sections if section.blocks}
    return [_entry(finding, filled, figures) for finding in overview.findings]


@dataclass(frozen=True, slots=True)
class Folded:
    """Checks that could not be made: a line, and below it what each lacks."""

    line: str
    lacking: list[str]


def folded(overview: Overview) -> list[Folded]:
    """Return the checks that could not be made, by the reason."""
    kinds = []
    for state, words in _FOLDED.items():
        checks = output.without_finding(overview, state)
        if checks:
            names = "" if state is CheckState.NOT_APPLICABLE else f": {', '.join(check.what for check in checks)}"
            line = f"{words} {human.amount(len(checks), 'check')}{names}"
            kinds.append(Folded(line, _by_reason(checks)))
    return kinds


def _by_reason(checks: list[Check]) -> list[str]:
    """Return each reason once, with all that it holds for."""
    reasons: dict[str, list[str]] = {}
    for check in checks:
        reasons.setdefault(check.detail, []).append(check.what)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


_FOLDED = {
    CheckState.TOO_LITTLE: "Too little data for",
    CheckState.NOT_RECORDED: "Not recorded, for",
    CheckState.NOT_APPLICABLE: "Does not apply to this run:",
}


def _entry(finding: Finding, sections: set[str], figures: dict[str, str]) -> FindingEntry:
    symptoms = [symptom.text for symptom in finding.symptoms]
    if len(symptoms) > _SYMPTOMS:
        symptoms = [*symptoms[:_SYMPTOMS], f"{len(symptoms) - _SYMPTOMS} more."]
    return FindingEntry(
        tone=_TONES[finding.gravest],
        text=finding.text,
        rows=f"#{finding.section}" if finding.section in sections else "#not-in-this-run",
        chart=f"#chart-{figures[finding.chart]}" if finding.chart in figures else "",
        evidence=finding.evidence,
        symptoms=symptoms,
        look_at="; ".join(_in_list(step) for step in finding.look_at),
    )


def _in_list(step: str) -> str:
    """Return a sentence as a part of a list: ``The stack.`` as ``the stack``; names keep their capitals."""
    is_word = _FIRST_WORD.match(step) is not None
    return (step[:1].lower() + step[1:] if is_word else step).rstrip(".")
