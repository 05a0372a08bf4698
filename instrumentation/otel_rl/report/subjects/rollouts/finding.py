"""Whether rollouts were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.finding import Check
from otel_rl.report.subjects.calls.aggregate import Calls

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


def checks(collected: Collected) -> list[Check]:
    """Return whether the durations of rollouts could be compared."""
    unobserved = "" if collected[Calls].rollouts.statistics.number else "none was recorded"
    return [Check("rollouts", unobserved, ("slower_rollouts",))]
