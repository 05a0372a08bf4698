"""The first section of the page: what deserves a look, what was checked, and what was not observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import output
from otel_rl.report.core.finding import Severity

if TYPE_CHECKING:
    from otel_rl.report.core.blocks import Section
    from otel_rl.report.core.finding import Finding, Overview

_TONES = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.NOTICE: "notice"}
_SYMPTOMS = 6


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


def checked(overview: Overview) -> str:
    """Return what was checked and has no finding; without any finding the section says so already."""
    names = output.nothing_found(overview) if overview.findings else []
    return f"Checked, nothing found: {', '.join(names)}." if names else ""


def _entry(finding: Finding, sections: set[str], figures: dict[str, str]) -> FindingEntry:
    symptoms = [symptom.text for symptom in finding.symptoms]
    if len(symptoms) > _SYMPTOMS:
        symptoms = [*symptoms[:_SYMPTOMS], f"{len(symptoms) - _SYMPTOMS} more."]
    return FindingEntry(
        tone=_TONES[finding.severity],
        text=finding.text,
        rows=f"#{finding.section}" if finding.section in sections else "#not-in-this-run",
        chart=f"#chart-{figures[finding.chart]}" if finding.chart in figures else "",
        evidence=finding.evidence,
        symptoms=symptoms,
        look_at="; ".join(finding.look_at),
    )
