"""Whether most of a long run lies outside of its steps, or in evaluations and saves, and the numbers of the card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Finding, Severity, unexplained
from otel_rl.report.subjects.changes import change_sentences
from otel_rl.report.subjects.changes.series import SeriesKind
from otel_rl.report.subjects.run_time import shares
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_STEPS = (shares.FIRST_STEP, shares.STEPS)
_CALLS = (shares.FIRST_CALL, shares.CALLS)
_WITH_GAPS = "calls, and between"


#: Share of the time since the first step that is said of what is made on purpose, and that is a warning.
_SAID, _WARNING = 0.1, 0.25
#: The same of what waits, and the fewest waits.
_WAIT_SAID, _WAIT_WARNING, _FEWEST_WAITS = 0.25, 0.5, 5
#: How a change of it begins.
_WAIT = f"{change_sentences.noun(SeriesKind.PHASE, Phase.DATA_WAIT)} "
_ON_PURPOSE = ((shares.EVALUATION, "Evaluation", Phase.EVALUATE), (shares.SAVING, "Saving", Phase.CHECKPOINT))


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return what a run spent its time in besides steps, where that is much."""
    changes = known.get("changes", [])
    on_purpose = unexplained(_on_purpose(collected), changes)
    return [*_outside_steps(collected), *on_purpose, *_waits_for_data(collected, changes)]


def _waits_for_data(collected: Collected, changed: list[Finding]) -> list[Finding]:
    """Return that steps wait for data for a good part of their time, unless a change says since when.

    The longest wait is left out: it may be that for the start of the loader's workers.
    """
    if any(part.text.startswith(_WAIT) for change in changed for part in change.chain()):
        return []
    steps = collected.steps
    waits, lengths = steps.waits.cell, steps.lengths.cell
    waited = waits.total - waits.maximum if waits.count > _FEWEST_WAITS else 0.0
    whole = lengths.total if steps.guessed else lengths.total + waits.total
    if waited < max(_WAIT_SAID * whole, thresholds.LOST_SECONDS * max(len(steps.ranks), 1)):
        return []
    text = (
        f"Steps wait for data for {human.percent(waited / whole)} of their time"
        f" ({human.duration(waited / (waits.count - 1))} a step)."
    )
    severity = Severity.WARNING if waited >= _WAIT_WARNING * whole else Severity.NOTICE
    look_at = ["the data loader: its workers, and what reading and preparing a batch costs"]
    share = waited / whole
    return [Finding("data_wait_share", severity, text, "steps", subject=Phase.DATA_WAIT, cost=share, look_at=look_at)]


def _on_purpose(collected: Collected) -> list[Finding]:
    """Return evaluations and saves that take a good part of the time since the first step."""
    spent = dict(shares.of_run(collected).shares)
    named = [what for what, _, _ in _ON_PURPOSE]
    whole = sum(spent.get(what, 0.0) for what in (shares.FIRST_STEP, shares.STEPS, shares.BETWEEN, *named))
    found = []
    for what, noun, phase in _ON_PURPOSE:
        seconds = spent.get(what, 0.0)
        if seconds < max(_SAID * whole, thresholds.LOST_SECONDS):
            continue
        text = (
            f"{noun} takes {human.percent(seconds / whole)} of the time since the first step"
            f" ({human.duration(seconds)} of {human.duration(whole)})."
        )
        severity = Severity.WARNING if seconds >= _WARNING * whole else Severity.NOTICE
        found.append(Finding(f"{phase}_share", severity, text, "run_time", subject=phase, cost=seconds / whole))
    return found


def _outside_steps(collected: Collected) -> list[Finding]:
    """Return one notice where a long run spent little of its time in steps."""
    groups = grouped(collected)
    whole = sum(groups.values())
    steps = groups.get("steps", 0.0)
    if not steps or whole < thresholds.LONG_RUN_SECONDS or steps >= thresholds.FEW_STEPS_SHARE * whole:
        return []
    others = sorted(((seconds, name) for name, seconds in groups.items() if name != "steps"), reverse=True)
    spent = ", ".join(f"{name} {human.percent(seconds / whole)}" for seconds, name in others[:2])
    text = f"Steps are {human.percent(steps / whole)} of the run's {human.duration(whole)}: {spent}."
    return [Finding("time_outside_steps", Severity.NOTICE, text, "run_time")]


def grouped(collected: Collected) -> dict[str, float]:
    """Return seconds of the run by a few words: steps, or calls of a program without steps, and the rest."""
    groups: dict[str, float] = {}
    for what, seconds in shares.of_run(collected).shares:
        name = _GROUPS.get(what, what)
        groups[name] = groups.get(name, 0.0) + seconds
    return groups


_GROUPS = {
    **dict.fromkeys(_STEPS, "steps"),
    **dict.fromkeys(_CALLS, "calls"),
    shares.CALLS_AND_BETWEEN: _WITH_GAPS,
    **dict.fromkeys(shares.LOADING_PARTS, "loading"),
    shares.START: "start",
    shares.TELEMETRY: "start",
    shares.BEFORE: "other",
    shares.BETWEEN: "other",
    shares.PROGRAM: "the program",
}


def card(collected: Collected) -> tuple[str, str, str]:
    """Return (name, value, note) of the card; the value is empty where the parts are not known."""
    groups = grouped(collected)
    whole = sum(groups.values())
    name = next((name for name in ("steps", "calls", _WITH_GAPS) if groups.get(name)), "")
    if not name:
        return ("", "", "")
    rest = {other: seconds for other, seconds in groups.items() if other != name}
    largest = max(rest, key=rest.__getitem__, default="")
    note = f"of {human.duration(whole)}; {largest} {human.percent(rest[largest] / whole)}" if largest else ""
    return (f"In {name}", human.percent(groups[name] / whole), note)
