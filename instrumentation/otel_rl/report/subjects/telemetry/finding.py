"""What telemetry lost, or could not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.errors.aggregate import drops, internal_errors

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_SECTION = "telemetry"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return findings on the recording itself; most of them are notices."""
    losses = []
    if collected.steps.unseen.count > collected.steps.seen.count:
        losses.append(Finding("unseen_collectives", Severity.NOTICE, sentences.unseen(collected.steps), "ranks"))
    processes = collected.reader.processes
    dropped = drops(processes, collected.totals)
    lost = sum(drop.number for drop in dropped)
    if lost:
        reasons = human.listed(sorted({f"{drop.reason} ({drop.signal})" for drop in dropped}))
        recorded = sum(process.spans + process.points + process.logs for process in processes)
        share = lost / (lost + recorded)
        severity = Severity.WARNING if share >= thresholds.LOST else Severity.NOTICE
        text = f"{human.amount(lost, 'item')} of telemetry dropped: {reasons}."
        losses.append(Finding("lost_telemetry", severity, text, _SECTION))
    unreadable = sentences.unreadable(collected.reader.problems)
    if unreadable:
        losses.append(Finding("unreadable", Severity.NOTICE, unreadable, _SECTION))
    if internal_errors(collected.totals):
        text = "Errors inside the instrumentation itself."
        losses.append(Finding("instrumentation_errors", Severity.WARNING, text, _SECTION))
    return losses


def checks(collected: Collected) -> list[Check]:
    """Return whether drops were counted."""
    has_manifest = any(process.manifest is not None for process in collected.reader.processes)
    return [Check("lost telemetry", "" if has_manifest else sentences.NO_MANIFEST, ("lost_telemetry",))]
