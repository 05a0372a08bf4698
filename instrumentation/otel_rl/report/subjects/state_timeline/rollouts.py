"""What the rollouts did: of each step the longest ones, of those without a step the latest and the longest."""

from __future__ import annotations

import heapq
from array import array
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.statistics import Largest
from otel_rl.report.subjects.state_timeline import states
from otel_rl.report.subjects.state_timeline.lanes import BASE, Lane, Stretch
from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.reader import Span

#: Rollouts that are kept of a step, of all without a step, and steps whose rollouts are kept.
MOST = 32
_STEPS = 64
#: Calls of a rollout that are drawn, and of all traces whose rollout has not ended.
_CALLS, _OPEN_CALLS = 256, 100_000
_NUMBERS_OF_CALL = 3
_ID = 40
_AGENTS = frozenset({Operation.INVOKE_AGENT, Operation.INVOKE_WORKFLOW})
#: What a rollout is called by, the first that it has.
_NAMES = (names.RL_ROLLOUT_ID, names.GEN_AI_CONVERSATION_ID, names.GEN_AI_AGENT_NAME, names.GEN_AI_WORKFLOW_NAME)

#: Attempt and iteration.
StepKey = tuple[tuple[int, ...], int]


class DrawnRollout(NamedTuple):
    """One rollout; ``calls`` has begin, end (ns since the epoch) and state of each, one after the other."""

    name: str
    step: int
    start: int
    end: int
    calls: array[int]

    @property
    def stretches(self) -> list[Stretch]:
        """What it did: the shortest call that covers a moment counts, and between calls it waits."""
        lane = Lane()
        numbers = iter(self.calls)
        for start, end, kind in zip(numbers, numbers, numbers, strict=True):
            cut = Stretch(max(start, self.start), min(end, self.end), kind, self.step)
            if cut.start < cut.end:
                lane.paint(cut, _ignore)
        lane.paint(Stretch(self.start, self.end, states.BETWEEN_CALLS, self.step), _ignore, BASE)
        return list(lane)


def _ignore(_kind: int, _start: int, _end: int, _sign: int) -> None:
    pass


class Rollouts:
    """Reads rollouts and the calls in them, in any order; memory does not depend on their number."""

    def __init__(self) -> None:
        self._open: dict[str, array[int]] = {}
        self._open_calls = 0
        self._kept: dict[str, array[int]] = {}
        self._by_step: dict[StepKey, list[tuple[int, int, str, DrawnRollout]]] = {}
        self._numbers: dict[StepKey, int] = {}
        self._latest: Largest[DrawnRollout] = Largest(MOST)
        self._longest: Largest[DrawnRollout] = Largest(MOST)
        self._order = count()
        self._are_marked = False
        #: All that were read.
        self.number = 0

    def add(self, span: Span, slow: Iterable[StepKey]) -> bool:
        """Take in a rollout or a call, and return whether it is a rollout.

        Where the program marks none, the outermost calls of agents are. The rollouts of the steps ``slow`` are kept
        beside those of the latest ones.
        """
        is_marked = span.name == spans.RL_ROLLOUT.type
        if is_marked and not self._are_marked:
            self._begin_anew()
        if is_marked or (not self._are_marked and _is_outermost(span)):
            self._add_rollout(span, slow)
            return True
        kind = states.of_call(span)
        if kind is not None:
            self._add_call(span, kind)
        return False

    def _begin_anew(self) -> None:
        """Forget the calls of agents that stood for rollouts: the program marks them."""
        self._are_marked = True
        self._by_step, self._numbers, self.number = {}, {}, 0
        self._latest, self._longest = Largest(MOST), Largest(MOST)

    def _add_call(self, span: Span, kind: int) -> None:
        calls = self._kept.get(span.trace_id)
        if calls is not None:
            _add_call(calls, span, kind)
            return
        if names.RL_PHASE in span.attributes and names.RL_ROLLOUT_ID not in span.attributes:
            return  # the phase of a step, which is on the lane of its rank
        calls = self._open.setdefault(span.trace_id, array("q"))
        before = len(calls)
        _add_call(calls, span, kind)
        self._open_calls += (len(calls) - before) // _NUMBERS_OF_CALL
        while self._open_calls > _OPEN_CALLS:
            self._open_calls -= len(self._open.pop(next(iter(self._open)))) // _NUMBERS_OF_CALL

    def _add_rollout(self, span: Span, slow: Iterable[StepKey]) -> None:
        self.number += 1
        calls = self._open.pop(span.trace_id, array("q"))
        self._open_calls -= len(calls) // _NUMBERS_OF_CALL
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        name = next((str(span.attributes[key]) for key in _NAMES if span.attributes.get(key)), f"{self.number}")[:_ID]
        step = -1 if iteration is None or abs(iteration) >= 1 << 62 else iteration
        rollout = DrawnRollout(name, step, span.start, span.end, calls)
        self._kept[span.trace_id] = calls
        self._latest.add(span.end, rollout)
        self._longest.add(span.seconds, rollout)
        if step >= 0:
            self._add_to_step((span.process.attempt, step), span, rollout, slow)
        self._forget()

    def _add_to_step(self, key: StepKey, span: Span, rollout: DrawnRollout, slow: Iterable[StepKey]) -> None:
        self._numbers[key] = self._numbers.get(key, 0) + 1
        kept = self._by_step.setdefault(key, [])
        heapq.heappush(kept, (span.end - span.start, next(self._order), span.trace_id, rollout))
        if len(kept) > MOST:
            heapq.heappop(kept)
        if len(self._by_step) > _STEPS:
            protected = set(slow)
            oldest = min((step for step in self._by_step if step not in protected), default=min(self._by_step))
            del self._by_step[oldest], self._numbers[oldest]

    def _forget(self) -> None:
        """Let late calls find the latest rollouts only."""
        while len(self._kept) > _STEPS * MOST:
            del self._kept[next(iter(self._kept))]

    @property
    def latest(self) -> list[DrawnRollout]:
        """Those that ended last, in the order in which they began."""
        return sorted(self._latest.items(), key=_begin)

    @property
    def longest(self) -> list[DrawnRollout]:
        """Those that took longest, in the order in which they began."""
        return sorted(self._longest.items(), key=_begin)

    def of_steps(self) -> dict[StepKey, tuple[list[DrawnRollout], int]]:
        """Return for each step the rollouts that are kept, in the order in which they began, and how many it has."""
        return {
            key: (sorted((entry[-1] for entry in kept), key=_begin), self._numbers[key])
            for key, kept in self._by_step.items()
        }


def _is_outermost(span: Span) -> bool:
    return not span.parent_id and span.attributes.get(names.GEN_AI_OPERATION_NAME) in _AGENTS


def _add_call(calls: array[int], span: Span, kind: int) -> None:
    if len(calls) >= _CALLS * _NUMBERS_OF_CALL:
        return
    calls.extend((span.start, span.end, kind))
    queued = float_or_none(span.attributes.get(names.RL_INFERENCE_SERVER_QUEUE_TIME)) or 0.0
    if 0 < queued < span.seconds:
        calls.extend((span.start, span.start + int(queued * 1e9), states.QUEUED))


def _begin(rollout: DrawnRollout) -> tuple[int, int]:
    return rollout.start, rollout.end
