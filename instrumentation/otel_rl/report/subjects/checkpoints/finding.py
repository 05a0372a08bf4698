"""Checkpoints that are smaller at the end than they were when they had been saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.checkpoints import saved
from otel_rl.semconv.attributes import RlCheckpointStateValues as State

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_CUT = "cut_checkpoint"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return one finding for the checkpoints that are cut, the latest of which is named."""
    cut = [one for one in saved.saved(collected) if one.state == State.CUT]
    if not cut:
        return []
    last = cut[-1]
    step = "" if last.step is None else f" of step {last.step}"
    more = f", and {human.amount(len(cut) - 1, 'other one')}" if len(cut) > 1 else ""
    text = (
        f"Checkpoint {last.name}{step} has {human.size(last.left)} at the end and had {human.size(last.size)} when it "
        f"had been saved{more}: it is cut."
    )
    return [Finding(_CUT, Severity.WARNING, text, "checkpoints", last.name, onset=last.step, look_at=[_LOOK_AT])]


_LOOK_AT = "what writes or copies the file after it was saved, and the space on its disk; load it before it is needed"


def checks(collected: Collected) -> list[Check]:
    """Return whether sizes of checkpoints could be compared."""
    what, checkpoints = "checkpoints that are cut", saved.saved(collected)
    if not checkpoints:
        return [Check.not_applicable(what, "no checkpoint was saved", (_CUT,))]
    compared = sum(one.state in {State.CUT, State.KEPT} for one in checkpoints)
    if not compared:
        return [Check.not_recorded(what, "none was looked at when its process ended", (_CUT,))]
    return [Check.of(what, compared, 1, "checkpoint", (_CUT,))]
