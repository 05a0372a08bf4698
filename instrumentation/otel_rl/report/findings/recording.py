"""What telemetry lost, or could not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report import human
from otel_rl.report.aggregate.problems import drops, internal_errors
from otel_rl.report.findings import sentences, thresholds
from otel_rl.report.findings.finding import Finding, Severity

if TYPE_CHECKING:
    from otel_rl.report.aggregate.collected import Collected

_SECTION = "telemetry"


def find(collected: Collected) -> list[Finding]:
    """Findings on the recording itself; most of them are notices."""
    found = []
    if collected.steps.unseen.count > collected.steps.seen.count:
        found.append(Finding("unseen_collectives", Severity.NOTICE, sentences.unseen(collected.steps), "ranks"))
    processes = collected.reader.processes
    dropped = drops(processes, collected.totals)
    lost = sum(drop.number for drop in dropped)
    if lost:
        reasons = human.listed(sorted({f"{drop.reason} ({drop.signal})" for drop in dropped}))
        recorded = sum(process.spans + process.points + process.logs for process in processes)
        share = lost / (lost + recorded)
        severity = Severity.WARNING if share >= thresholds.LOST else Severity.NOTICE
        text = f"{human.amount(lost, 'item')} of telemetry dropped: {reasons}."
        found.append(Finding("lost_telemetry", severity, text, _SECTION))
    unreadable = sentences.unreadable(collected.reader.problems)
    if unreadable:
        found.append(Finding("unreadable", Severity.NOTICE, unreadable, _SECTION))
    if internal_errors(collected.totals):
        text = "Errors inside the instrumentation itself."
        found.append(Finding("instrumentation_errors", Severity.WARNING, text, _SECTION))
    return found
