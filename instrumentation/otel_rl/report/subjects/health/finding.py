"""What the health rules say of the run, as findings and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.rule_table import INPUTS, RULES
from otel_rl.health.verdict import State
from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import STILL, Check, CheckState, Finding, Severity, are_at_once, around, take_over
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.changes import work
from otel_rl.report.subjects.health import replay
from otel_rl.report.subjects.rewards import finding as rewards
from otel_rl.report.subjects.training import program_kinds, scalars
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.training.guessed_records import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.health.verdict import Verdict
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.workload import Workload

_SEVERITIES = {State.WARNING: Severity.WARNING, State.CRITICAL: Severity.CRITICAL}
_SECTION = "training"
#: Code of the rule on step times: what became slower explains it.
_SLOW_STEP, _LONGER_STEPS = "P7", "slower_step"
#: The rule may already warn of a slight rise; so many steps later the change may come that made the steps much longer.
_LATER = 8
#: Findings of other subjects beside which a rule cannot be said to have found nothing.
_ALSO = {
    Code.NO_SIGNAL: ("idle_tokens",),
    Code.P7_SLOW_STEP: ("slower_step", "slower_phase"),
    Code.UNSCORED: (rewards.UNSCORED,),
    Code.NON_FINITE: (rewards.UNSCORED,),
}


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return what the rules found; slow steps that another finding explains go below it."""
    attempt = summarise(collected).attempt
    verdicts = replay.verdicts(collected)
    several = len({verdict.loop for verdict in verdicts}) > 1
    judged = []
    for verdict in verdicts:
        if verdict.is_finding:
            # The latest attempt is not named.
            of_attempt = f"attempt {verdict.attempt or '0.0.0'}" if verdict.attempt != attempt else ""
            places = [of_attempt, f"loop {verdict.loop}" if several else ""]
            counts = scalars.of_run(collected).counts(verdict.metric)
            finding = _finding(verdict, counts, ", ".join(filter(None, places)))
            if not any(places):
                finding.points = _points(finding, collected)
            if verdict.code == Code.P7_SLOW_STEP:
                _excuse(finding, collected)
            judged.append(finding)
    changes = known.get("changes", [])
    judged = _without_dead_scores(_of_values(judged), changes)
    take_over(judged, changes, lambda rule, change: bool(rule.chart) and rule.chart == change.chart)
    return _unexplained(judged, [finding for of_subject in known.values() for finding in of_subject])


def _points(finding: Finding, collected: Collected) -> list[tuple[int, str]]:
    """Return the logged values around the onset of a finding of the loop that the page shows."""
    curve = scalars.of_run(collected).logged.get(finding.chart)
    if curve is None or finding.onset is None:
        return []
    return around(finding.onset, [round(x) for x in curve.x], curve.y, human.number)


def _excuse(finding: Finding, collected: Collected) -> None:
    """Make slow steps a notice if there is more to do; of guessed ones, mention that the program may have paused."""
    if reason := work.reason_of_steps(finding.onset or 0, collected):
        finding.severity, finding.evidence = Severity.NOTICE, [reason]
    elif collected.steps.guessed:
        finding.evidence.append(sentences.PAUSES)


def _without_dead_scores(judged: list[Finding], changes: list[Finding]) -> list[Finding]:
    """Return the findings without reward hacking of a score that has become constant; that is the cause."""
    dead = [change for change in changes if change.code == STILL]
    left: list[Finding] = []
    for finding in judged:
        same = (change for change in dead if change.chart == finding.chart and are_at_once(change, finding))
        cause = next(same, None) if finding.code == Code.P5_REWARD_HACKING else None
        (left if cause is None else cause.symptoms).append(finding)
    return left


def _of_values(judged: list[Finding]) -> list[Finding]:
    """Return one finding of each value since a step, the gravest, with what other rules found of it then below it."""
    left: list[Finding] = []
    for finding in judged:
        same = (one for one in left if finding.chart and one.chart == finding.chart and are_at_once(one, finding))
        cause = next(same, None)
        (left if cause is None else cause.symptoms).append(finding)
    return left


def checks(collected: Collected) -> list[Check]:
    """Return what was checked by every rule without a finding, or why it could not be."""
    by_title: dict[str, Verdict] = {}
    for verdict in replay.verdicts(collected):
        # Judged in one of several loops.
        known = by_title.get(verdict.title)
        if not verdict.is_finding and (known is None or _knows_more(verdict, known)):
            by_title[verdict.title] = verdict
    program = workload.of(collected)
    # In an order of their own: that of the records differs while a run is followed.
    checks = [_check(by_title[title], program, scalars.of_run(collected).keys) for title in sorted(by_title)]
    return [_with_scores(collected, check) for check in checks]


def _knows_more(verdict: Verdict, known: Verdict) -> bool:
    """Return whether a rule was judged, or had its inputs, in another loop than the one that is known."""
    return (verdict.severity == State.HEALTHY, not verdict.lacking) > (
        known.severity == State.HEALTHY,
        not known.lacking,
    )


def _with_scores(collected: Collected, check: Check) -> Check:
    """Return the check on samples without a score by those of a trainer, where no loop of the program has any."""
    scored = rewards.scored(collected) if Code.UNSCORED in check.codes else []
    if check.state is CheckState.CHECKED or not scored:
        return check
    missing = sum(samples - number for _, samples, number in scored)
    return Check.of(check.what, sum(samples for _, samples, _ in scored), 1, "score", check.codes, seen=missing)


def _check(verdict: Verdict, program: Workload, logged: Collection[str]) -> Check:
    """Return whether a rule had its inputs, and enough of them."""
    what, code = _noun(verdict.title), verdict.code
    codes = (code, *_ALSO.get(code, ()))
    if verdict.lacking:
        foreign = _foreign(verdict, program) or _of_any_loop(verdict, logged)
        make = Check.not_applicable if foreign and not program.may_train else Check.not_recorded
        return make(what, foreign or _not_logged(verdict, logged), codes)
    if verdict.severity == State.UNOBSERVED and verdict.observed >= verdict.needed:
        return Check.not_recorded(what, verdict.evidence, codes)
    if not verdict.needed:
        return Check(what, CheckState.CHECKED, verdict.evidence, codes, series=verdict.keys)
    noun = _NOUNS.get(code, "log call")
    return Check.of(what, verdict.observed, verdict.needed, noun, codes, series=verdict.keys)


def _not_logged(verdict: Verdict, logged: Collection[str]) -> str:
    """Return which inputs are missing; one that may be drawn under a key of its own is not said to be."""
    alike = {
        name: key
        for name in verdict.lacking
        if (key := program_kinds.key_like(INPUTS[name].metric, logged)) is not None
    }
    if not alike:
        return f"{verdict.evidence}; otel_rl.metric records it"
    named = (f"{key} may be the {INPUTS[name].brief}" for name, key in alike.items())
    keys = human.listed([INPUTS[name].keys[0] for name in verdict.lacking])
    return f"{human.listed(list(named))}: otel_rl.metric records it as {keys}"


def _title(verdict: Verdict) -> str:
    """Return the title of the rule; updates that leave out some parameters are updates."""
    is_partial = verdict.metric in INPUTS["without_gradient"].keys and (verdict.value or 0.0) < 1
    return "Partial update" if is_partial else verdict.title


def _noun(title: str) -> str:
    """Return a title as it stands inside of a sentence: ``no signal``, ``KL explosion``."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def _foreign(verdict: Verdict, program: Workload) -> str:
    """Return why a rule whose inputs are missing does not apply; ``""`` where it does."""
    if not program.trains:
        return program.without_steps
    if not program.learns_from_samples and verdict.code not in _OF_ALL_TRAINING:
        return workload.NO_SAMPLES
    if verdict.code == Code.ENGINE_DRIFT and not program.has_engine:
        return "no engine generates for the trainer"
    return _OF_SOME.get(verdict.code, "")


def _of_any_loop(verdict: Verdict, logged: Collection[str]) -> str:
    """Return why a rule does not judge values that guessed steps have; ``""`` where they lack some too."""
    has_all = all(f"{PREFIX}{INPUTS[name].keys[0]}" in logged for name in verdict.lacking)
    return "its limits are those of post-training, and the program has no trainer" if has_all else ""


#: Rules on values that every training has.
_OF_ALL_TRAINING = frozenset(
    {
        Code.P7_SLOW_STEP,
        Code.LEARNING_RATE,
        Code.GRADIENT_NORM,
        Code.NON_FINITE,
        Code.LOSS_DIVERGENCE,
        Code.NO_UPDATE,
        Code.PREFERENCE,
    }
)
#: Rules on values that only some trainers have -> why others have none.
_OF_SOME = {
    Code.P6_VALIDATION_COLLAPSE: "no reward of an evaluation was logged",
    Code.STALENESS: "only asynchronous trainers log the age of their samples",
    Code.PREFERENCE: "only preference training logs accuracies and margins of pairs",
}
_NOUNS = {Code.P7_SLOW_STEP: "step", Code.P6_VALIDATION_COLLAPSE: "evaluation"}


def _finding(verdict: Verdict, counts: str, place: str) -> Finding:
    since = "" if verdict.onset is None else f" since {counts} {verdict.onset}"
    if verdict.until is not None and verdict.onset is not None:
        since = f" from {counts} {verdict.onset} to {verdict.until}"
    where = f" ({place})" if place else ""
    return Finding(
        code=verdict.code,
        severity=_SEVERITIES[verdict.severity],
        text=f"{_title(verdict)}{since}{where}: {verdict.evidence}{'' if verdict.evidence.endswith('.') else '.'}",
        section=_SECTION,
        subject=verdict.metric,
        chart=verdict.metric,
        cost=verdict.cost or None,
        onset=verdict.onset,
        counts=counts,
        evidence=[RULES[verdict.code].means],
        look_at=list(verdict.next_steps),
    )


#: Failing calls, and the rules on rewards that they trigger: rollouts whose tools fail or answer something else get
#: low rewards, which are all alike.
_FAILING = ("failing_tool", "failing_model")
_OF_REWARDS = (Code.NO_SIGNAL, Code.REWARD_COLLAPSE)


def _unexplained(judged: list[Finding], causes: list[Finding]) -> list[Finding]:
    """Return findings of the rules; those on step times that another finding explains go below it."""
    left = []
    for finding in judged:
        cause = next((cause for cause in causes if _explains(cause, finding)), None)
        if cause is None:
            left.append(finding)
        else:
            cause.symptoms.append(finding)
    return left


def _explains(cause: Finding, finding: Finding) -> bool:
    if finding.code in _OF_REWARDS and (cause.code in _FAILING or cause.section == "tools"):
        return cause.severity is not Severity.NOTICE and are_at_once(cause, finding)
    if not finding.code.startswith(_SLOW_STEP) or finding.onset is None:
        return False
    near = [
        change
        for change in (cause, *cause.symptoms)
        # The rule fires late on steps that become longer bit by bit.
        if change.onset is not None
        and (change.code == _LONGER_STEPS or change.onset >= finding.onset - thresholds.TOGETHER)
        and change.onset <= finding.onset + (_LATER if change.code == _LONGER_STEPS else thresholds.TOGETHER)
    ]
    if near and all(change.severity is Severity.NOTICE and change.evidence for change in near):
        # There is more to do, or the machine is busy: the steps are longer, and not slower.
        finding.severity = Severity.NOTICE
        return True
    # A notice costs the steps nothing.
    return any(change.severity is not Severity.NOTICE for change in near)
