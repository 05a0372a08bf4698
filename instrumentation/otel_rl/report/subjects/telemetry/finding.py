"""What telemetry lost, could not see, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.errors.aggregate import drops, internal_errors
from otel_rl.report.subjects.telemetry.aggregate import OwnCost

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_SECTION = "telemetry"


def findings(collected: Collected, _known: Known) -> list[Finding]:
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
    found += _reduced(collected)
    if internal_errors(collected.totals):
        text = "Errors inside the instrumentation itself."
        found.append(Finding("instrumentation_errors", Severity.WARNING, text, _SECTION))
    return found


def checks(collected: Collected) -> list[Check]:
    """Return whether drops were counted."""
    has_manifest = any(process.manifest is not None for process in collected.reader.processes)
    return [Check("lost telemetry", "" if has_manifest else sentences.NO_MANIFEST, ("lost_telemetry",))]


def _reduced(collected: Collected) -> list[Finding]:
    """otel-rl took too much of the steps and left something out."""
    processes = list(collected[OwnCost].reduced.values())
    if not processes:
        return []
    first = min((one.iteration for one in processes if one.iteration is not None), default=None)
    since = "" if first is None else f" from step {first} on"
    share = max(one.share for one in processes)
    who = human.listed([one.who for one in processes])
    text = f"Less was recorded{since} ({who}): otel-rl took {human.percent(share)} of the steps' time."
    return [Finding("less_recorded", Severity.NOTICE, text, _SECTION, onset=first)]
