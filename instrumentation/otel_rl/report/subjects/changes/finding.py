"""What changed, in all loops and attempts: durations, values, and costs that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_rl.report.core.finding import unexplained
from otel_rl.report.core.links import Link
from otel_rl.report.subjects.changes import change_sentences, members, recurring
from otel_rl.report.subjects.changes.chains import OF_KIND, Linked, chained
from otel_rl.report.subjects.changes.level_changes import level_changes
from otel_rl.report.subjects.changes.shifts import shifts

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.finding import Finding
    from otel_rl.report.subjects.changes.series import LevelChange


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return what changed in the steps that the page shows, then in those that it does not draw."""
    changes = _of_view(collected)
    for stretch, steps in collected.loops.others().items():
        view, where = collected.view(steps), collected.loops.name(stretch)
        changes += [_placed(change, where) for change in _of_view(view)]
    return [*changes, *members.findings(collected, changes)]


def _of_view(collected: Collected) -> list[Finding]:
    slower = level_changes(collected)
    linked = [
        Linked(finding, _link(change), change.onset, change.by_step)
        for finding, change in zip(change_sentences.findings(slower, collected), slower, strict=True)
    ]
    linked += [
        Linked(shift.finding, shift.link, shift.onset, shift.watched.by_step, shift.is_growth)
        for shift in shifts(collected)
    ]
    changes = chained(linked)
    return [*changes, *unexplained(recurring.findings(collected, slower), changes)]


def _link(change: LevelChange) -> Link:
    return Link.LONGER if change.reason else OF_KIND.get(change.kind, Link.SLOWER)


def _placed(change: Finding, where: str) -> Finding:
    text = f"{change.text.removesuffix('.')} ({where})."
    # No chart shows it.
    return replace(change, text=text, chart="", symptoms=[_placed(symptom, where) for symptom in change.symptoms])
