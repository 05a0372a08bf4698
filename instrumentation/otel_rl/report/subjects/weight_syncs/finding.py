"""Engines that generated with weights that were not the trainer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.weight_syncs.aggregate import WeightSyncs, compared
from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.weight_syncs.aggregate import SyncProblem

CODES = {Verdict.SKIPPED: "skipped_sync", Verdict.PARTIAL: "partial_sync"}
_HOW = {
    Verdict.SKIPPED: "New weights did not reach the engine",
    Verdict.PARTIAL: "A part of the new weights did not reach the engine",
}
_NOT_COMPARED = "OTEL_RL_SYNC_CHECK is off, or no engine runs beside a trainer"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """A finding per process and kind of problem."""
    found = collected[WeightSyncs].problems.values()
    several = len({one.who for one in found}) > 1
    return [_finding(one, f" ({one.who})" if several else "") for one in found if one.verdict in CODES]


def _finding(one: SyncProblem, where: str) -> Finding:
    since = "" if one.first is None else f" in step {one.first}"
    if one.number > 1:
        since = f" {human.amount(one.number, 'time')}"
        if one.first is not None:
            since += f", first in step {one.first}, last in step {one.last}"
    return Finding(
        CODES[one.verdict],
        Severity.CRITICAL,
        f"{_HOW[one.verdict]}{since}{where}: {one.text}",
        "steps",
        onset=one.first,
        evidence=[f"Tensors: {', '.join(one.tensors)}."] if one.tensors else [],
        look_at=["The operations of rl.sync in the step before, and the names that they bring."],
    )


def checks(collected: Collected) -> list[Check]:
    """Return whether that was looked for."""
    reason = "" if compared(collected.totals) else _NOT_COMPARED
    return [Check("weights of the engine against the trainer's", reason, tuple(CODES.values()))]
