"""Whether steps were recorded, whether their numbers began again, and whether a change could be seen.

What a change is say :mod:`otel_rl.report.subjects.changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.levels import ENOUGH
from otel_rl.report.core.output import NO_STEPS
from otel_rl.report.subjects import workload

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.store.reader import Process

_WHAT = "steps and phases that become slower"
_GUESSING = "otel_rl_torch_training"
_CODES = ("slower_phase", "slower_step", "longer_garbage_collection", "P7_slow_step")


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return that no step was recorded, or only a part of the steps is shown."""
    return [*_no_steps(collected), *_numbers_began_again(collected)]


def _no_steps(collected: Collected) -> list[Finding]:
    """Return a notice where the program has made an optimizer or gradients, and no step was recorded to its end."""
    program, passes = workload.of(collected), workload.passes_without_step(collected)
    missing = [
        process
        for process in collected.reader.processes
        if process.manifest and process.manifest.get("steps_missing") and process.manifest.get("ended_unix_nano")
    ]
    if program.trains or not (missing or passes):
        return []
    if passes:
        text = (
            f"No step was recognised in {human.amount(passes, 'backward pass', 'backward passes')}: no optimizer of"
            " PyTorch moved. `with otel_rl.step(number):` around each iteration marks the steps of any loop."
        )
        return [Finding(NO_STEPS, Severity.NOTICE, text, "steps")]
    why = next(filter(None, map(_why_none_was_guessed, missing)), "none of its steps followed a backward pass")
    text = (
        f"No step was recorded, although the program made an optimizer: {why}."
        " `with otel_rl.step(number):` around each iteration marks the steps of any loop."
    )
    return [Finding(NO_STEPS, Severity.NOTICE, text, "steps")]


def _why_none_was_guessed(process: Process) -> str:
    """Return why the steps of the process were not guessed; ``""`` where they would have been."""
    guessing = process.mapping("instrumentors").get(_GUESSING)
    if not isinstance(guessing, dict) or guessing.get("state") != "skipped":
        return ""
    return f"its steps are not guessed ({_GUESSING}: {guessing.get('reason')})"


def _numbers_began_again(collected: Collected) -> list[Finding]:
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
    program = workload.of(collected)
    if not collected.steps.ranks:
        reason = program.without_steps
        make = Check.not_recorded if program.trains or program.may_train else Check.not_applicable
        return [make(_WHAT, reason or sentences.NO_STEP, _CODES)]
    number = max(totals.steps.count for totals in collected.steps.ranks.values())
    return [Check.of(_WHAT, number, ENOUGH, "step", _CODES, workload.steps_with_spans(collected))]
