"""What is injected: delays of known rank, place and time into jobs of two and four ranks, and jobs without any."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

#: Places of a delay in a step; ``network`` spreads it over the messages of the rank.
KINDS = ("compute", "data", "reward", "backward", "network")
#: Seconds of a step without delay, and the share of it that a delay adds: a fifth of the delayed step.
LENGTH, ADDED = 0.25, 0.25
DELAYED, QUIET, WARM_UP = 24, 16, 8


@dataclass
class Launch:
    """One job."""

    name: str
    ranks: int
    steps: int
    length: float = LENGTH
    noise: float = 0.02
    checkpoint: int | None = None
    injections: list[dict[str, Any]] = field(default_factory=list)
    #: Small collectives at the end of each step, as trainers gather their metrics.
    gathered: int = 0

    @property
    def plan(self) -> dict[str, Any]:
        """What the program reads."""
        names = ("length", "steps", "noise", "checkpoint", "injections", "gathered")
        return {name: getattr(self, name) for name in names}


def delayed(name: str, ranks: int, kinds: tuple[str, ...], first_rank: int = 0) -> Launch:
    """A job with one injection after another, each in another rank, with healthy steps between."""
    injections, step = [], WARM_UP
    for number, (kind, rank) in enumerate(zip(kinds, cycle(range(ranks)), strict=False)):
        late = (rank + first_rank) % ranks
        injections.append(
            {
                "number": number,
                "kind": kind,
                "rank": late,
                "first": step + 1,
                "last": step + DELAYED,
                "seconds": LENGTH * ADDED,
            }
        )
        step += DELAYED + QUIET
    return Launch(name, ranks, step, injections=injections)


def nightly() -> list[Launch]:
    """50 injections and 25 healthy jobs, five of them with 40 small collectives a step or more."""
    late = [delayed(f"{ranks} ranks, round {turn}", ranks, KINDS, turn) for ranks in (2, 4) for turn in range(5)]
    many = [(2, 40, 0.02), (4, 40, 0.02), (2, 80, 0.05), (4, 60, 0.1), (2, 200, 0.1)]
    return [*late, *healthy(), *(many_collectives(*one) for one in many)]


def many_collectives(ranks: int, gathered: int = 40, length: float = 0.02) -> Launch:
    """A job of short even steps with many small collectives, which one rank leaves later than the others."""
    name = f"healthy: {ranks} ranks, {length} s, {gathered} small collectives"
    return Launch(name, ranks, round(6 / length), length, gathered=gathered)


def healthy() -> list[Launch]:
    """Jobs in which no rank is late: of several lengths and noises, with a checkpoint that only rank 0 writes."""
    return [
        Launch(
            f"healthy: {ranks} ranks, {length} s, noise {noise}", ranks, round(15 / length), length, noise, checkpoint
        )
        for ranks in (2, 4)
        for length, noise, checkpoint in (
            (0.05, 0.02, None),
            (0.05, 0.1, None),
            (0.1, 0.05, None),
            (0.1, 0.02, 40),
            (0.25, 0.02, None),
            (0.25, 0.1, None),
            (0.25, 0.02, 30),
            (0.5, 0.05, None),
            (1.0, 0.1, None),
            (4.0, 0.05, None),
        )
    ]


def quick() -> list[Launch]:
    """Six injections and three healthy jobs."""
    return [
        delayed("4 ranks", 4, (*KINDS, "reward"), 1),
        Launch("healthy: 2 ranks", 2, 40, checkpoint=20),
        Launch("healthy: 4 ranks", 4, 40, noise=0.1),
        many_collectives(2),
    ]
