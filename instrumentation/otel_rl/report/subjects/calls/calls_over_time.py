"""Tool and model calls over the steps: duration, time to the first chunk, failures and retries; what failures cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.occupied import Occupied
from otel_rl.report.core.operations import is_fair
from otel_rl.report.core.over_time import OverTime
from otel_rl.report.core.statistics import Cell
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none, seconds_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

TOOL, MODEL = "tool", "model"
_CELLS = 30_000
_GROUPS = 500
#: Trajectories of which reward and failed tools are kept.
_TRACES = 50_000


class Called(NamedTuple):
    """What was called by whom: the place is the server of a model, ``""`` where there is none."""

    kind: str
    name: str
    place: str
    rank: int | None


@dataclass(slots=True)
class Failures:
    """Failed calls of one tool or model: how many of each error type, and where the first one was."""

    errors: dict[str, int] = field(default_factory=dict)
    first_step: int | None = None
    first_time: int = 0

    def add(self, error: str, iteration: int | None, time: int) -> None:
        """Count one; the files of several processes are not in order of time."""
        self.errors[error] = self.errors.get(error, 0) + 1
        if not self.first_time or time < self.first_time:
            self.first_time, self.first_step = time, iteration


class CallsOverTime:
    """Series by tool or model, server and rank, from spans."""

    def __init__(self) -> None:
        self.seconds = OverTime(_CELLS)
        self.first_chunk = OverTime(_CELLS)
        #: The time that both take, with calls at once counted once.
        self.occupied, self.occupied_first_chunk = Occupied(_CELLS), Occupied(_CELLS)
        #: 1 for a failed or retried call, 0 for another.
        self.failed = OverTime(_CELLS)
        self.retried = OverTime(_CELLS)
        self.failures: dict[tuple[str, str, str], Failures] = {}
        #: Calls inside of a rollout, by tool or model.
        self.in_rollouts: dict[tuple[str, str, str], int] = {}
        self._failed_tools: dict[str, set[str]] = {}
        self._rewards: dict[str, float] = {}

    def add(self, kind: str, name: str, span: Span, error: str) -> None:
        """Take in one call; ``error`` is its type, ``""`` when it went well."""
        called = Called(kind, name, _server(span), span.process.rank)
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        if is_fair(span):
            self._add_to_series(called, iteration, span, failed=bool(error))
        if error and (called[:3] in self.failures or len(self.failures) < _GROUPS):
            self.failures.setdefault(called[:3], Failures()).add(error, iteration, span.start)
        if error and kind == TOOL and (span.trace_id in self._failed_tools or len(self._failed_tools) < _TRACES):
            self._failed_tools.setdefault(span.trace_id, set()).add(name)

    def _add_to_series(self, called: Called, iteration: int | None, span: Span, *, failed: bool) -> None:
        get, attempt = span.attributes.get, span.process.attempt
        self.seconds.add(called, iteration, span.end, span.seconds, attempt)
        self.occupied.add(called, span, span.end)
        self.failed.add(called, iteration, span.end, float(failed), attempt)
        # Other instrumentors write it, too.
        first_chunk = seconds_or_none(get(names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK))
        retries = get(names.RL_INFERENCE_RETRIES)
        if first_chunk is not None:
            self.first_chunk.add(called, iteration, span.end, first_chunk, attempt)
            self.occupied_first_chunk.add(called, span, span.start + int(first_chunk * 1e9))
        if isinstance(retries, int):
            self.retried.add(called, iteration, span.end, float(retries > 0), attempt)
        if names.RL_ROLLOUT_ID in span.attributes:
            self.in_rollouts[called[:3]] = self.in_rollouts.get(called[:3], 0) + 1

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""
        for series in (self.seconds, self.first_chunk, self.failed, self.retried):
            series.leave_out(attempts)
        for occupied in (self.occupied, self.occupied_first_chunk):
            occupied.leave_out(attempts)

    def mostly_in_rollouts(self) -> frozenset[tuple[str, str, str]]:
        """Return the tools and models, with their place, of which most calls are inside of a rollout."""
        numbers: Counter[tuple[str, str, str]] = Counter()
        for called, line in self.seconds.lines().items():
            numbers[called[:3]] += line.count
        return frozenset(callee for callee, number in numbers.items() if 2 * self.in_rollouts.get(callee, 0) > number)

    def add_rollout(self, span: Span) -> None:
        """Take in the reward of a trajectory, where its span has one."""
        reward = span.attributes.get(names.RL_ROLLOUT_REWARD)
        if is_fair(span) and isinstance(reward, (int, float)) and len(self._rewards) < _TRACES:
            self._rewards[span.trace_id] = float(reward)

    def rewards_of(self, tool: str) -> tuple[Cell, Cell]:
        """Return the rewards of the trajectories in which ``tool`` failed, and of the others."""
        with_failure, without = Cell(), Cell()
        for trace, reward in self._rewards.items():
            (with_failure if tool in self._failed_tools.get(trace, ()) else without).add(reward)
        return with_failure, without


def _server(span: Span) -> str:
    address, port = span.attributes.get(names.SERVER_ADDRESS), span.attributes.get(names.SERVER_PORT)
    return "" if address is None else f"{address}:{port}" if port is not None else str(address)
