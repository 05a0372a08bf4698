"""Whether a change of the steps could be seen; what it is say :mod:`otel_rl.report.subjects.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import sentences
from otel_rl.report.core.change_points import FEWEST
from otel_rl.report.core.finding import Check

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


def checks(collected: Collected) -> list[Check]:
    """Return whether there are enough steps to see a change."""
    steps = collected.steps
    ranks = [rank for rank in steps.ranks if rank is not None]
    unobserved = _too_few(steps.lengths.cell.count / max(len(ranks), 1))
    codes = ("slower_phase", "slower_step", "longer_garbage_collection")
    return [Check("duration of steps and phases", unobserved, codes)]


def _too_few(number: float) -> str:
    if not number:
        return sentences.NO_STEP
    return "" if number >= 2 * FEWEST else f"{number:.0f} steps are too few to tell a change"
