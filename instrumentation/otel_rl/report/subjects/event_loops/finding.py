"""Event loops that were blocked while rollouts or model calls waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core import code_places
from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.totals import combined
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.event_loops import blocks
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.event_loops.blocks import BlockingFunction

_OTHERS = 3
_NOT_AWAITED = "no rollout, tool or model call was awaited in one"
#: Blocks that last less than this altogether are no finding: a program of seconds is blocked by the first use of its
#: libraries, and a share of so short a run says nothing about a longer one.
_BRIEF = 1.0
#: Where the collector of Python is what blocks.
_COLLECT_ELSEWHERE = (
    "`gc.freeze()` once everything is imported: collections then skip what was there; or `gc.collect()` between steps."
)


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return one finding with the functions that block most; none where no rollout or call waited for long."""
    waited = [function for function in blocks.functions(collected) if function.stretches]
    waited.sort(key=lambda function: -function.waited)
    seconds = sum(function.waited for function in waited)
    cost = _cost(collected, waited)
    is_notable = cost is not None and cost >= thresholds.NOTABLE_SHARE and seconds >= _BRIEF
    if not waited or not (is_notable or seconds >= thresholds.LOST_SECONDS):
        return []
    worst = waited[0]
    steps = sorted({step for function in waited for step in function.steps})
    finding = Finding(
        "blocked_event_loop",
        Severity.WARNING if is_notable or cost is None else Severity.NOTICE,
        f"{_text(waited, seconds)}{_waiting(waited)}{_of_steps(steps)}{_loss(cost)}.",
        "pressure",
        cost=cost,
        onset=steps[0] if steps else None,
    )
    finding.evidence = [
        f"{function.place} blocked it for {human.duration(function.waited)} of that."
        for function in waited[1 : 1 + _OTHERS]
    ]
    is_garbage = worst.function == code_places.GARBAGE_COLLECTION.function
    elsewhere = f"{worst.function}: an asynchronous client, or `await asyncio.to_thread(...)` around it."
    finding.look_at = [_COLLECT_ELSEWHERE if is_garbage else elsewhere]
    return [finding]


def checks(collected: Collected) -> list[Check]:
    """Return whether an event loop was watched."""
    what, codes = "event loops that are blocked while rollouts or calls wait", ("blocked_event_loop",)
    number = combined(list(collected.totals.of(metrics.RL_EVENT_LOOP_LAG))).cell.count
    blocked = human.duration(sum(function.waited for function in blocks.functions(collected)))
    basis = f"{human.amount(number, 'measurement')}, blocked for {blocked}"
    return [Check.of(what, number, 1, "measurement", codes, basis, without=_NOT_AWAITED)]


def _cost(collected: Collected, waited: list[BlockingFunction]) -> float | None:
    """Return the share of the rollouts' time; None where no rollout was recorded."""
    everything = rollouts.of_run(collected).statistics.durations.cell.total
    return min(sum(function.rollout_seconds for function in waited) / everything, 1.0) if everything > 0 else None


def _text(waited: list[BlockingFunction], seconds: float) -> str:
    who = human.listed(sorted({name for function in waited for name in function.who}))
    number = human.amount(sum(function.stretches for function in waited), "stretch", "stretches")
    worst = waited[0]
    most = "" if len(waited) == 1 else f"{human.duration(worst.waited)} of it "
    return f"The event loop of {who} was blocked for {human.duration(seconds)} in {number}, {most}by {worst.place}"


def _waiting(waited: list[BlockingFunction]) -> str:
    rollouts, calls = max(function.rollouts for function in waited), max(function.model_calls for function in waited)
    what = human.amount(rollouts, "rollout") if rollouts > 1 else human.amount(calls, "model call")
    return f"; up to {what} were open"


def _of_steps(steps: list[int]) -> str:
    if not steps:
        return ""
    return f" in step {steps[0]}" if len(steps) == 1 else f" in {len(steps)} steps from {steps[0]} to {steps[-1]}"


def _loss(cost: float | None) -> str:
    return f": rollouts lose {human.percent(cost)} of their time" if cost is not None else ""
