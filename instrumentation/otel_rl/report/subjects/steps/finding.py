"""Whether steps were recorded, and a change of them could be seen.

What it is say :mod:`otel_rl.report.subjects.changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import sentences
from otel_rl.report.core.change_points import ENOUGH
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects import workload

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_WHAT = "steps and phases that become slower"
_CODES = ("slower_phase", "slower_step", "longer_garbage_collection", "P7_slow_step")


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return a notice where the program has made an optimizer, and no step was recorded to its end."""
    program = workload.of(collected)
    manifests = [process.manifest or {} for process in collected.reader.processes]
    if program.trains or not any(one.get("steps_missing") and one.get("ended_unix_nano") for one in manifests):
        return []
    text = (
        "No step was recorded, although the program made an optimizer: a loop of your own, or of a trainer that otel-rl"
        " does not know, needs `with otel_rl.step(number):` around each iteration."
    )
    return [Finding("no_steps", Severity.NOTICE, text, "steps")]


def checks(collected: Collected) -> list[Check]:
    """Return whether there are enough steps to see a change."""
    program = workload.of(collected)
    if not collected.steps.ranks:
        reason = program.without_steps
        make = Check.not_recorded if program.trains or program.may_train else Check.not_applicable
        return [make(_WHAT, reason or sentences.NO_STEP, _CODES)]
    number = max(totals.steps.count for totals in collected.steps.ranks.values())
    return [Check.of(_WHAT, number, ENOUGH, "step", _CODES, workload.extent(collected))]
