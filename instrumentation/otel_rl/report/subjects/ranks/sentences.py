"""Sentences on late ranks: where one works longer, and what mending it gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.report.core.steps import Steps

#: Mending a rank alone gives nothing where it gives a smaller share of what all late ranks cost.
_NOTHING = 0.01


def where(phase: str, steps: Steps) -> str:
    """Return where a rank worked longer, by a flight recorder: that knows few phases of steps that are guessed."""
    if phase:
        return f"in phase {phase}"
    return "" if steps.guessed else "outside of all phases"


def mending(rank: int, alone: float, everything: float, beside: Collection[int]) -> str:
    """Return what mending a rank gives back, where others are late beside it; in s of each step."""
    if not beside:
        return ""
    gives = human.duration(alone) if alone >= _NOTHING * everything else "nothing"
    others = f"{'rank' if len(beside) == 1 else 'ranks'} {human.listed([str(other) for other in sorted(beside)])}"
    return f" Mending rank {rank} alone gives back {gives}; with {others} mended too, {human.duration(everything)}."


def look_at(rank: int) -> str:
    """Return what to look at next."""
    return f"Host, device and data of rank {rank}, against those of the others."
