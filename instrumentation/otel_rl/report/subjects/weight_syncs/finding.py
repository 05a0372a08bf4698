"""Engines that generated with weights that were not the trainer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.weight_syncs import syncs
from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.weight_syncs.syncs import SyncProblem

CODES = {Verdict.SKIPPED: "skipped_sync", Verdict.PARTIAL: "partial_sync"}
_HOW = {
    Verdict.SKIPPED: "New weights did not reach the engine",
    Verdict.PARTIAL: "A part of the new weights did not reach the engine",
}
_NOT_COMPARED = "set OTEL_RL_SYNC_CHECK=checksums, for an engine in the trainer's process"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return a finding per process and kind of problem."""
    problems = syncs.problems(collected)
    several = len({problem.who for problem in problems}) > 1
    return [
        _finding(problem, f" ({problem.who})" if several else "") for problem in problems if problem.verdict in CODES
    ]


def _finding(problem: SyncProblem, where: str) -> Finding:
    since = "" if problem.first is None else f" in step {problem.first}"
    if problem.number > 1:
        since = f" {human.amount(problem.number, 'time')}"
        if problem.first is not None:
            since += f", first in step {problem.first}, last in step {problem.last}"
    return Finding(
        CODES[problem.verdict],
        Severity.CRITICAL,
        f"{_HOW[problem.verdict]}{since}{where}: {problem.text}",
        "steps",
        onset=problem.first,
        evidence=[f"Tensors: {', '.join(problem.tensors)}."] if problem.tensors else [],
        look_at=["The operations of rl.sync in the step before, and the names that they bring."],
    )


def checks(collected: Collected) -> list[Check]:
    """Return whether that was looked for."""
    what, codes = "an engine whose weights are not the trainer's", tuple(CODES.values())
    number = syncs.compared(collected.totals)
    if number:
        return [Check.of(what, number, 1, "comparison", codes)]
    if workload.of(collected).has_engine:
        return [Check.not_recorded(what, _NOT_COMPARED, codes)]
    return [Check.not_applicable(what, "no engine generates for a trainer", codes)]
