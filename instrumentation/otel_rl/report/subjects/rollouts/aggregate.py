"""The tail of generation: the time of a step in which few of its rollouts are still active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

#: Rollouts that a step must have: a tenth of fewer is one or none.
FEWEST_ROLLOUTS = 20
#: Share of a step's rollouts below which the rest of them is its tail.
FEW = 0.1
#: Steps that are read beside each other, and rollouts of one of them that are kept.
_OPEN_STEPS, _MOST_ROLLOUTS = 64, 20_000

_Step = tuple[tuple[int, ...], int]


@dataclass(slots=True)
class TailTotals:
    """Seconds over all steps with enough rollouts."""

    steps: int = 0
    generation: float = 0.0
    tail: float = 0.0
    longest: float = 0.0
    longest_step: int = 0

    @property
    def share(self) -> float:
        """Share of the generation time."""
        return self.tail / self.generation if self.generation else 0.0


class GenerationTail:
    """Reads the rollouts of each step; memory depends on neither steps nor rollouts."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[int, ...], TailTotals] = {}
        self._open: dict[_Step, list[tuple[int, int]]] = {}
        #: Rollouts that were read, with a step or without one.
        self.rollouts = 0
        #: The most that one step has.
        self.most = 0

    def add_span(self, span: Span) -> None:
        """Take in a rollout; other spans are ignored."""
        if span.name != spans.RL_ROLLOUT.type:
            return
        self.rollouts += 1
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        if iteration is None:
            return
        rollouts = self._open.setdefault((span.process.attempt, iteration), [])
        if len(rollouts) < _MOST_ROLLOUTS:
            rollouts.append((span.start, span.end))
        if len(self._open) > _OPEN_STEPS:
            self._count(next(iter(self._open)))

    def close(self) -> None:
        """Count the steps that still wait for rollouts."""
        for step in list(self._open):
            self._count(step)

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave out the steps of these attempts."""
        for attempt in attempts:
            self._attempts.pop(attempt, None)

    @property
    def totals(self) -> TailTotals:
        """Those of the latest attempt."""
        return self._attempts[max(self._attempts)] if self._attempts else TailTotals()

    def _count(self, step: _Step) -> None:
        attempt, iteration = step
        rollouts = self._open.pop(step)
        self.most = max(self.most, len(rollouts))
        tail = tail_seconds(rollouts) if len(rollouts) >= FEWEST_ROLLOUTS else None
        if tail is None:
            return
        totals = self._attempts.setdefault(attempt, TailTotals())
        totals.steps += 1
        totals.generation += (max(end for _, end in rollouts) - min(start for start, _ in rollouts)) / 1e9
        totals.tail += tail
        if tail > totals.longest:
            totals.longest, totals.longest_step = tail, iteration


def tail_seconds(rollouts: list[tuple[int, int]]) -> float | None:
    """Return s from the last moment at which a tenth of the rollouts was active to the end of the last one.

    None where so many never were: they run one after the other, or a few at a time.
    """
    changes = sorted([*((start, 1) for start, _ in rollouts), *((end, -1) for _, end in rollouts)])
    active, enough_until = 0, None
    for moment, change in changes:
        if active >= FEW * len(rollouts):
            enough_until = moment
        active += change
    return None if enough_until is None else (changes[-1][0] - enough_until) / 1e9
