"""What is wrong with the samples that the trainer learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.trajectories.aggregate import Trajectories
from otel_rl.report.subjects.trajectories.groups import NO_ADVANTAGE

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_SECTION = "trajectories"
_DIFFERS = "advantage_differs"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return advantages that the recorded rewards do not give."""
    checked = collected[Trajectories].groups.checked
    first = checked.first
    if first is None:
        return []
    since = "" if first.iteration is None else f" from step {first.iteration} on"
    rank = "" if first.rank is None else f" of rank {first.rank}"
    text = (
        f"Advantages differ from what the recorded rewards give{since}: sample {first.sample}{rank}, in group "
        f"{first.group}, has {human.number(first.recorded)} and not {human.number(first.computed)} ({first.estimator})."
    )
    finding = Finding(_DIFFERS, Severity.WARNING, text, _SECTION, onset=first.iteration)
    finding.evidence.append(
        f"{human.number(checked.differing)} of {human.amount(checked.samples, 'sample')} differ; it is the first."
    )
    if first.fits:
        finding.evidence.append(f"The advantages of its group are those of {first.fits}.")
    finding.look_at.append("what changes rewards or advantages between the reward functions and the loss")
    return [finding]


def checks(collected: Collected) -> list[Check]:
    """Return whether advantages could be computed again."""
    what, checked = "advantages that differ from the rewards", collected[Trajectories].groups.checked
    if checked.samples:
        return [Check.of(what, checked.samples, 1, "sample", (_DIFFERS,))]
    if checked.unobserved != NO_ADVANTAGE:
        return [Check.not_recorded(what, checked.unobserved, (_DIFFERS,))]
    return [Check.not_applicable(what, "no advantage was recorded", (_DIFFERS,))]
