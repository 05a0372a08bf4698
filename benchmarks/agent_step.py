"""CPU time of a step of an agent, a call of a tool: ours beside the span of another instrumentor, and alone.

    python benchmarks/agent_step.py [--output FILE]

CPU time of the thread, in turns in one process, the least of several stretches of each round. The unit is one of our
spans (``otel_rl.span``). Last, 100,000 runs of agents with a tool each, and the memory that the second half adds.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from figures import finish, ratio_of_medians
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_rl
from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.telemetry import Scope, deferral
from otel_rl.tools.calls import ToolCall
from otel_rl.training import trajectories

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS, STRETCHES, CALLS, RUNS = 30, 15, 50, 100_000
_scope = Scope("benchmark")
_TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
_companion = trace.get_tracer("companion")


def own_span() -> None:
    with otel_rl.span("work", number=1):
        pass


def alone() -> None:
    with ToolCall(_scope, "add"):
        pass


def companion() -> None:
    with _companion.start_as_current_span("execute_tool add", attributes=_TOOL):
        pass


def beside() -> None:
    with _companion.start_as_current_span("execute_tool add", attributes=_TOOL), ToolCall(_scope, "add"):
        pass


def least(program: Callable[[], None]) -> float:
    """CPU nanoseconds of the thread per call."""
    times = []
    for _ in range(STRETCHES):
        began = time.thread_time_ns()
        for _ in range(CALLS):
            program()
        times.append((time.thread_time_ns() - began) / CALLS)
        deferral.posted.clear()
    return min(times)


def measure() -> list[dict[str, float]]:
    samples = []
    for _ in range(ROUNDS):
        with otel_rl.rollout("r"):
            samples.append({program.__name__: least(program) for program in (own_span, alone, companion, beside)})
    return samples


def growth() -> float:
    """MiB of memory that the second half of many runs adds."""
    peaks = []
    for number in range(RUNS):
        run = AgentRun(_scope, runs.agent("planner"))
        alone()
        run.end()
        if number % 1000 == 0:
            trajectories.record()
            deferral.drain_all()
        if number in (RUNS // 2, RUNS - 1):
            gc.collect()
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return peaks[1] - peaks[0]


def main() -> int:
    trace.set_tracer_provider(TracerProvider())
    samples = measure()
    added = [(one["beside"] - one["companion"], one["own_span"]) for one in samples]
    whole = [(one["alone"], one["own_span"]) for one in samples]
    figures: dict[str, Any] = {
        "beside its companion, added / one of our spans": {**ratio_of_medians(added), "limit": 1.0},
        "alone / one of our spans": ratio_of_medians(whole),
        "MiB that 50,000 more runs add": {"value": round(growth(), 2), "limit": 2.0},
    }
    return finish("agent_step", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
