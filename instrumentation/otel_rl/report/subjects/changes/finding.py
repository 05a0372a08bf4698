"""What takes longer since a step, in all loops and attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_rl.report.subjects.changes import change_sentences
from otel_rl.report.subjects.changes.level_changes import level_changes

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.finding import Finding


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return what became slower in the steps that the page shows, then in those that it does not draw."""
    changes = change_sentences.findings(level_changes(collected), collected)
    for stretch, steps in collected.loops.others().items():
        view, where = collected.view(steps), collected.loops.name(stretch)
        changes += [_placed(change, where) for change in change_sentences.findings(level_changes(view), view)]
    return changes


def _placed(change: Finding, where: str) -> Finding:
    text = f"{change.text.removesuffix('.')} ({where})."
    # No chart shows it.
    return replace(change, text=text, chart="", symptoms=[_placed(symptom, where) for symptom in change.symptoms])
