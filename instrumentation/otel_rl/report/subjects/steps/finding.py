"""Numbers of steps that began again, and whether a change of the steps could be seen.

What a change is say :mod:`otel_rl.report.subjects.changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import sentences
from otel_rl.report.core.change_points import FEWEST
from otel_rl.report.core.finding import Check, Finding, Severity

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return that the page shows a part of the steps, where their numbers went back within one attempt."""
    restarts = collected.loops.shown.restarts
    if not restarts:
        return []
    times = "once" if restarts == 1 else f"{restarts} times"
    text = (
        f"The step numbers went back {times}: curves and tables over steps show those since the last time, up to step "
        f"{collected.steps.last_iteration}. Number steps over all epochs, and the page shows the whole run."
    )
    return [Finding("step_numbers", Severity.NOTICE, text, "steps")]


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
