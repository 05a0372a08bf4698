"""Whether rollouts were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.change_points import ENOUGH
from otel_rl.report.core.finding import Check
from otel_rl.report.subjects.calls.aggregate import Calls

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

_MOMENTS = "steps or seconds with rollouts"


def checks(collected: Collected) -> list[Check]:
    """Return whether the durations of rollouts could be compared."""
    what, codes, rollouts = "rollouts that become slower", ("slower_rollouts",), collected[Calls].rollouts
    number = rollouts.statistics.number
    if not number:
        return [Check.not_applicable(what, "no rollout was recorded", codes)]
    points = max((len(line.x) for line in rollouts.seconds.lines().values()), default=0)
    if points < ENOUGH:
        return [Check.of(what, points, ENOUGH, "step or second with rollouts", codes, plural=_MOMENTS)]
    return [Check.of(what, number, 1, "rollout", codes)]
