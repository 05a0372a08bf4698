"""What is wrong with the samples that the trainer learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.health import replay
from otel_rl.report.subjects.trajectories import groups
from otel_rl.report.subjects.trajectories.groups import NO_ADVANTAGE
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.trajectories.groups import Groups

_SECTION = "trajectories"
_DIFFERS, _IDLE = "advantage_differs", "idle_tokens"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return advantages that the recorded rewards do not give, and tokens that taught nothing."""
    return [*_different_advantages(collected), *_idle_tokens(collected)]


def _idle_tokens(collected: Collected) -> list[Finding]:
    """Return a finding where half of the tokens have no advantage; the health rule without a signal says more."""
    of_run = groups.of_run(collected)
    share = of_run.effective_share
    if share is None or share > 1 - thresholds.IDLE_TOKENS or _too_few(of_run):
        return []
    if any(verdict.code == Code.NO_SIGNAL and verdict.is_finding for verdict in replay.verdicts(collected)):
        return []
    text = (
        f"{human.percent(1 - share)} of the {human.short_number(of_run.tokens)} tokens that were trained on had "
        f"advantage 0 and taught nothing of the reward: in {human.number(of_run.dead)} of "
        f"{human.amount(of_run.compared, 'group')} all rewards are equal."
    )
    finding = Finding(_IDLE, Severity.WARNING, text, _SECTION, chart="frac_reward_zero_std", cost=1 - share)
    finding.look_at += [
        "prompts that are too hard or solved, and rewards that give no credit for a part of an answer",
        "more samples per prompt, or leaving such groups out",
    ]
    return [finding]


def _too_few(of_run: Groups) -> str:
    """Return why nothing can be said of the groups, ``""`` where it can."""
    if not of_run.tokens:
        return NO_ADVANTAGE
    few = of_run.compared < thresholds.FEWEST_GROUPS
    return f"{human.amount(of_run.compared, 'group')} are too few to judge" if few else ""


def _different_advantages(collected: Collected) -> list[Finding]:
    checked = groups.of_run(collected).checked
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
    """Return whether advantages could be computed again, and whether groups could be judged."""
    return [_check_of_advantages(collected), _check_of_idle_tokens(collected)]


def _check_of_advantages(collected: Collected) -> Check:
    what, checked = "advantages that differ from the rewards", groups.of_run(collected).checked
    if checked.samples:
        return Check.of(what, checked.samples, 1, "sample", (_DIFFERS,))
    if checked.unobserved != NO_ADVANTAGE:
        return Check.not_recorded(what, checked.unobserved, (_DIFFERS,))
    return Check.not_applicable(what, "no advantage was recorded", (_DIFFERS,))


def _check_of_idle_tokens(collected: Collected) -> Check:
    what, of_run = "tokens without an advantage", groups.of_run(collected)
    codes = (_IDLE, Code.NO_SIGNAL)
    if not of_run.tokens:
        return Check.not_applicable(what, "no advantage was recorded", codes)
    idle = f"{human.percent(1 - (of_run.effective_share or 0.0))} of {human.short_number(of_run.tokens)} tokens"
    return Check.of(what, of_run.compared, thresholds.FEWEST_GROUPS, "group", codes, idle)
