"""Lateness that lasts: the steps from the first to the last one in which a rank was late at one place.

By chance some rank is late in each step, but not the same one again and again. Steps in which the ranks met there apart
and this one was among the early ones speak against it; steps in which none was late there say nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import exp, lgamma, log
from typing import TYPE_CHECKING

from otel_rl.ranks.stragglers.comparison import share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.ranks.stragglers.comparison import StepComparison, Straggler
    from otel_rl.ranks.stragglers.meetings import Place

#: A late step counts 1, one that speaks against it, and one in which none was late: a rank that is late in every fourth
#: step is late.
_AGAINST, _NEUTRAL = -1.0, -1 / 3


@dataclass(frozen=True)
class Lateness:
    """A rank that was late at one place, from the first late step to the last one."""

    rank: int
    place: Place
    #: It was among so many late ranks at most, of so many.
    most: int
    ranks: int
    #: Late or not, in order; the first and the last one are late.
    steps: list[StepComparison]
    #: By the place of the step in these.
    late: dict[int, Straggler]
    #: Steps in which others were late there, and this rank was not.
    against: int
    #: How likely one of the ranks is late so often in these steps by accident; may exceed 1.
    chance: float
    #: Compared steps with which a stretch as long may begin: the fewer, the less is left to chance.
    starts: int

    @property
    def lost(self) -> float:
        """Seconds that the others lost in each of :attr:`steps`; the mean."""
        return sum(late.lost for late in self.late.values()) / len(self.steps)

    @property
    def alone(self) -> float:
        """Seconds of it that mending this rank alone gives back; the mean."""
        return sum(late.alone for late in self.late.values()) / len(self.steps)

    def losses(self) -> list[float]:
        """Return the seconds that the others lost in each of :attr:`steps`."""
        return [self.late[number].lost if number in self.late else 0.0 for number in range(len(self.steps))]

    @property
    def share(self) -> float:
        """Share of the time of :attr:`steps` that the others lost."""
        return share_of(self.lost * len(self.steps), self.steps)

    @property
    def worst(self) -> Straggler:
        """Of the step that lost most, which explains best where the time goes."""
        return max(self.late.values(), key=lambda late: late.lost)

    def overlaps(self, other: Lateness) -> bool:
        """Return whether the other one was late at the same time, for half of the shorter time at least."""
        common = {step.key for step in self.steps} & {step.key for step in other.steps}
        return 2 * len(common) >= min(len(self.steps), len(other.steps))

    @property
    def beside(self) -> set[int]:
        """Ranks that were late with it in most of its late steps."""
        times = Counter(rank for late in self.late.values() for rank in late.beside)
        return {rank for rank, number in times.items() if 2 * number > len(self.late)}


def lateness(steps: Sequence[StepComparison], least: float) -> list[Lateness]:
    """Return for each rank and place the steps in which it was late most consistently; see :func:`lateness_of`."""
    candidates = sorted({(rank, late.place) for step in steps for late in step.late for rank in late.ranks})
    found = [lateness_of(rank, place, steps, least) for rank, place in candidates]
    return [one for one in found if one is not None]


def together(late: Sequence[Lateness]) -> list[Lateness]:
    """Return the same with the cost of each where all that are late at its place are mended."""
    most: dict[Place, int] = {}
    for one in late:
        most[one.place] = max(one.most, most.get(one.place, 0))
    found = []
    for one in late:
        stragglers = {
            number: one.steps[number].straggler_at(one.place, one.rank, most[one.place]) or straggler
            for number, straggler in one.late.items()
        }
        found.append(replace(one, most=most[one.place], late=stragglers))
    return sorted(found, key=lambda one: one.lost * len(one.steps), reverse=True)


def lateness_of(rank: int, place: Place, steps: Sequence[StepComparison], least: float) -> Lateness | None:
    """Return the part of ``steps`` in which ``rank`` was late at ``place`` most consistently; None: in no step.

    Args:
        rank: The rank.
        place: Where the ranks meet.
        steps: Compared ones, oldest first.
        least: Share of a step that it must cost for the rank to be late in it.
    """
    sets = [late for step in steps for late in step.late if late.place == place and rank in late.ranks]
    sizes = sorted({len(late.ranks) for late in sets})
    found = [_among(most, rank, place, steps, least, max(late.of for late in sets)) for most in sizes]
    known = [one for one in found if one is not None]
    best = min(known, key=lambda one: (one.chance, -len(one.steps)), default=None)
    # The best of several is the better for having been chosen.
    return best and replace(best, chance=best.chance * len(known))


def _among(
    most: int, rank: int, place: Place, steps: Sequence[StepComparison], least: float, ranks: int
) -> Lateness | None:
    late = [step.straggler_at(place, rank, most) for step in steps]
    marks = [_mark(one, step, place, least) for one, step in zip(late, steps, strict=True)]
    first, end = _densest(marks)
    if first == end:
        return None
    part = marks[first:end]
    found = {
        number: straggler
        for number, (straggler, mark) in enumerate(zip(late[first:end], part, strict=True))
        if straggler is not None and mark > 0
    }
    against = sum(mark == _AGAINST for mark in part)
    by_accident = ranks * chance(len(found), len(found) + against, most / ranks)
    return Lateness(
        rank, place, most, ranks, list(steps[first:end]), found, against, by_accident, len(steps) - len(part) + 1
    )


def _mark(late: Straggler | None, step: StepComparison, place: Place, least: float) -> float:
    if late is None:
        return _AGAINST if step.is_apart(place) else _NEUTRAL
    return 1.0 if late.lost >= least * step.length else _NEUTRAL


def _densest(marks: Iterable[float]) -> tuple[int, int]:
    """Return begin and end of the part whose sum is largest; of several the latest, and the longest of that end."""
    best, part, total, begin = 0.0, (0, 0), 0.0, 0
    for place, mark in enumerate(marks):
        if total < 0:
            total, begin = 0.0, place
        total += mark
        if total > 0 and total >= best:
            best, part = total, (begin, place + 1)
    return part


def chance(late: int, steps: int, odds: float) -> float:
    """Return how likely ``late`` of ``steps``, or more, come by accident, each with these odds (a binomial test)."""
    orders = [lgamma(steps + 1) - lgamma(number + 1) - lgamma(steps - number + 1) for number in range(late, steps + 1)]
    odds = min(max(odds, 1e-9), 1 - 1e-9)
    logarithms = [
        order + number * log(odds) + (steps - number) * log(1 - odds) for number, order in enumerate(orders, late)
    ]
    return sum(map(exp, logarithms))
