"""Checkpoints that are smaller at the end than they were when they had been saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.checkpoints import saved
from otel_rl.semconv.attributes import RlCheckpointStateValues as State
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.checkpoints.saved import Checkpoint

#: State -> code, severity, and what is said of it.
_FINDINGS = {
    State.CUT: ("cut_checkpoint", Severity.WARNING, "it is cut"),
    State.SMALLER: ("smaller_checkpoint", Severity.NOTICE, "it seems to have been written anew"),
}
_CODES = tuple(code for code, _, _ in _FINDINGS.values())
#: Smaller ones are only counted, see :mod:`otel_rl.training.checkpoints`.
_NONE = "no checkpoint of 64 KiB or more was saved"
_LOOK_AT = "what writes or copies the file after it was saved, and the space on its disk; load it before it is needed"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return one finding for the checkpoints that are cut, and one for those that are smaller; the latest is named."""
    checkpoints = saved.saved(collected)
    return [
        _finding(found, code, severity, said)
        for state, (code, severity, said) in _FINDINGS.items()
        if (found := [one for one in checkpoints if one.state == state])
    ]


def _finding(found: list[Checkpoint], code: str, severity: Severity, said: str) -> Finding:
    last = found[-1]
    step = "" if last.step is None else f" of step {last.step}"
    more = f", and {human.amount(len(found) - 1, 'other one')}" if len(found) > 1 else ""
    text = (
        f"Checkpoint {last.name}{step} has {human.size(last.left)} at the end and had {human.size(last.size)} when it "
        f"had been saved{more}: {said}."
    )
    return Finding(code, severity, text, "checkpoints", last.name, onset=last.step, look_at=[_LOOK_AT])


def checks(collected: Collected) -> list[Check]:
    """Return whether sizes of checkpoints could be compared."""
    what, checkpoints = "checkpoints that are cut or smaller", saved.saved(collected)
    if not checkpoints:
        if Phase.CHECKPOINT in {phase for phase, _ in collected.steps.parts}:
            return [Check.not_recorded(what, "it is not known which files were saved", _CODES)]
        return [Check.not_applicable(what, _NONE, _CODES)]
    compared = sum(one.state in {State.KEPT, *_FINDINGS} for one in checkpoints)
    if not compared:
        return [Check.not_recorded(what, "none was looked at when its process ended", _CODES)]
    return [Check.of(what, compared, 1, "checkpoint", _CODES)]
