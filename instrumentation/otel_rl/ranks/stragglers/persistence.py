"""Which stragglers are worth an event: those that cost much and last, so that one late step is not reported."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.stragglers.comparison import LATE, share_of
from otel_rl.ranks.stragglers.lasting import lateness_of, together

if TYPE_CHECKING:
    from otel_rl.ranks.stragglers.comparison import StepComparison, Straggler
    from otel_rl.ranks.stragglers.lasting import Lateness
    from otel_rl.ranks.stragglers.meetings import Place
    from otel_rl.ranks.stragglers.timeline import StepKey

#: Share of the step from which a straggler is reported, and below which it has ended.
LIMIT, END = 0.1, LATE
#: Steps in which a rank must be late, and newest steps among which these are. Rollouts are of uneven length, so some
#: rank is late in each step by chance.
STEPS, WINDOW = 8, 32
#: Largest chance of it by accident: of two ranks one is late in eleven steps in a row once in 1024. Each step asks
#: anew: with 1 in 100, half of all jobs of two ranks with uneven batches have a straggler in 300 steps, with this 3 %.
CHANCE = 1 / 1000
#: Seconds; less is noise of the machine, however short the steps.
SHORTEST = 0.005
#: A straggler is over when it was not late in so many compared steps, or cost little over the last :data:`STEPS`.
OVER = 5


class StragglerChange(NamedTuple):
    """A straggler that begins, or that is over; means over the steps from its first late one on."""

    straggler: Straggler
    #: Share of the step that the others lose, and seconds of each step.
    share: float
    lost: float
    #: Seconds that mending it alone gives back, and that mending all late ranks does.
    alone: float
    all_lost: float
    #: Ranks that are late with it, at this place or another.
    beside: tuple[int, ...]
    #: The last late step, and the iteration of the first of them in the same loop.
    key: StepKey
    since: int
    is_over: bool = False

    @property
    def iteration(self) -> int:
        """Of the last late step."""
        return self.key.iteration


@dataclass
class _OpenLateness:
    """A rank that was reported and is not over."""

    change: StragglerChange
    #: Where it is late -> among how many ranks at most.
    places: dict[Place, int]

    def lost(self, step: StepComparison) -> float:
        """Return the seconds that the others lost to it in a step."""
        rank = self.change.straggler.rank
        late = [step.straggler_at(place, rank, most) for place, most in self.places.items()]
        return sum(one.lost for one in late if one is not None)


class Persistence:
    """Told of each step that was compared; says when stragglers appear and when they are over."""

    def __init__(self) -> None:
        self._recent: deque[StepComparison] = deque(maxlen=WINDOW)
        self._open: dict[int, _OpenLateness] = {}

    @property
    def is_open(self) -> bool:
        """A straggler has been reported and is not over."""
        return bool(self._open)

    def add(self, comparison: StepComparison) -> list[StragglerChange]:
        """Take one step into account; return what changes by it."""
        self._recent.append(comparison)
        over = [self._end(rank) for rank in list(self._open) if self._is_over(rank)]
        return over + self._begin()

    def costs(self) -> dict[int, tuple[float, float]]:
        """Return each rank that is late -> seconds lost to it, and their share, over the last steps."""
        steps = list(self._recent)[-WINDOW // 2 :]
        lost = {rank: sum(map(late.lost, steps)) for rank, late in self._open.items()}
        return {rank: (seconds / len(steps), share_of(seconds, steps)) for rank, seconds in lost.items()}

    def _begin(self) -> list[StragglerChange]:
        late = self._notable()
        begun = []
        for one in late:
            known = self._open.get(one.rank)
            if known is None:
                change = self._change(one, late)
                self._open[one.rank] = _OpenLateness(change, {one.place: one.most})
                begun.append(change)
            else:
                known.places[one.place] = max(one.most, known.places.get(one.place, 0))
        return begun

    def _notable(self) -> list[Lateness]:
        """Return those that are late in the newest step, and have been so for long; the dearest first."""
        steps = list(self._recent)
        candidates = {(rank, late.place) for late in steps[-1].late for rank in late.ranks if len(steps) >= STEPS}
        found = [lateness_of(rank, place, steps, LIMIT) for rank, place in sorted(candidates)]
        late = [one for one in found if one is not None and one.steps[-1] is steps[-1] and _is_notable(one)]
        return together(late)

    def _change(self, one: Lateness, all_late: list[Lateness]) -> StragglerChange:
        loop = one.steps[-1].key._replace(iteration=0)
        # The ranks may take steps of other loops between them.
        keys = [step.key for step in one.steps if step.key._replace(iteration=0) == loop and _was_late(one, step)]
        at_places = {other.place: other.lost for other in reversed(all_late)}
        beside = {other.rank for other in all_late} | one.beside | set(self._open)
        return StragglerChange(
            one.worst,
            one.share,
            one.lost,
            one.alone,
            max(sum(at_places.values()), one.lost),
            tuple(sorted(beside - {one.rank})),
            keys[-1],
            keys[0].iteration,
        )

    def _is_over(self, rank: int) -> bool:
        late, steps = self._open[rank], list(self._recent)[-STEPS:]
        if not any(late.lost(step) >= END * step.length for step in steps[-OVER:]):
            return True
        return share_of(sum(map(late.lost, steps)), steps) < END

    def _end(self, rank: int) -> StragglerChange:
        late = self._open.pop(rank)
        loop = late.change.key._replace(iteration=0)
        keys = [
            step.key
            for step in self._recent
            if step.key._replace(iteration=0) == loop and late.lost(step) >= END * step.length
        ]
        return late.change._replace(key=(keys or [late.change.key])[-1], is_over=True)


def _is_notable(one: Lateness) -> bool:
    return len(one.late) >= STEPS and one.chance <= CHANCE and one.share >= LIMIT and one.lost >= SHORTEST


def _was_late(one: Lateness, step: StepComparison) -> bool:
    return step.straggler_at(one.place, one.rank, one.most) is not None
