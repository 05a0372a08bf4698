"""Whether a change of the steps could be seen; what it is say :mod:`otel_rl.report.subjects.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import sentences
from otel_rl.report.core.change_points import ENOUGH
from otel_rl.report.core.finding import Check
from otel_rl.report.subjects import workload

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

_WHAT = "steps and phases that become slower"
_CODES = ("slower_phase", "slower_step", "longer_garbage_collection", "P7_slow_step")


def checks(collected: Collected) -> list[Check]:
    """Return whether there are enough steps to see a change."""
    program = workload.of(collected)
    if not collected.steps.ranks:
        reason = program.without_steps
        make = Check.not_recorded if program.trains or program.may_train else Check.not_applicable
        return [make(_WHAT, reason or sentences.NO_STEP, _CODES)]
    number = max(totals.steps.count for totals in collected.steps.ranks.values())
    return [Check.of(_WHAT, number, ENOUGH, "step", _CODES, workload.extent(collected))]
