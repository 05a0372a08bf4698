"""The section on trajectories: how many there were, and a table of those that are worth a look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.later_words import said_of
from otel_rl.report.core.messages import Conversation, shortened
from otel_rl.report.core.sentences import ROLLOUT_FUNCTIONS
from otel_rl.report.core.statistics import Spread
from otel_rl.report.subjects.trajectories import (
    conversations,
    groups,
    listed_traces,
    pass_at_k,
    side_calls,
    totals,
    trajectory_tables,
)
from otel_rl.report.subjects.trajectories.groups import NO_ADVANTAGE
from otel_rl.report.subjects.trajectories.totals import NOT_TRAINED, OF_A_KIND, OF_ALL_PARTS, TRAINED
from otel_rl.report.subjects.weight_versions import lines as weight_versions
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.subjects.trajectories.conversations import Sample
    from otel_rl.report.subjects.trajectories.groups import Checked, Groups, Shift
    from otel_rl.report.subjects.trajectories.totals import Totals

_POLICY = (
    f"The latest {OF_A_KIND} that failed or got the lowest reward after a failure, the {OF_A_KIND} slowest, the "
    f"{OF_A_KIND} with the lowest and with the highest reward, and up to {OF_ALL_PARTS} from all parts of the run. "
    "Filter a column by a text, or a column of numbers by one like 3, 2..5, >0.5 or <1."
)
_SURVIVORS = "Means of what is used say nothing of what is not. Trajectories that never end are in none of these."
_EFFECT = "Effective are tokens of samples that are trained on with an advantage that is not zero."
#: Steps of the table, the latest.
_STEPS = 200
#: So many of both are needed to compare them; what is not used takes so many times as long, or it is not reported.
_FEWEST, _LONGER = 10, 1.5


def build(collected: Collected, _charts: Charts) -> Section:
    """Return the section; empty where no sample was recorded."""
    trajectories, of_groups = totals.of_run(collected), groups.of_run(collected)
    filler = (
        "Samples come from TRL's GRPO and RLOO trainers, from LangGraph,"
        f" from {ROLLOUT_FUNCTIONS}, or from otel_rl.rollout()."
    )
    section = Section("trajectories", "Trajectories", filler)
    of_changes = said_of(collected.tables)
    if not trajectories.ended and not trajectories.started and not of_changes:
        return section
    section.lead = " ".join([*sentences(collected), *of_changes, *weight_versions.sentences(collected)])
    spans, said = listed_traces.timelines(collected), listed_traces.said(collected)
    places = {trace: f"spans-{trace}" for trace in spans}
    told = enumerate(conversations.samples(collected), 1)
    samples = {sample.key: (f"said-{number}", sample) for number, sample in told}
    texts: dict[object, str] = {key: place for key, (place, _) in samples.items()}
    texts |= {trace: f"said-{trace}" for trace in said}
    rows = totals.chosen(collected)
    title = f"{human.number(len(rows))} of {human.amount(trajectories.ended, 'trajectory', 'trajectories')}"
    section.blocks.append(PageBlock(title, _POLICY, trajectory_tables.trajectories(rows, places, texts)))
    if len(trajectories.durations) > 1:
        section.blocks.append(
            PageBlock("Durations by outcome", _SURVIVORS, trajectory_tables.durations(trajectories.durations))
        )
    steps = [step for step in of_groups.steps if step.groups or step.tokens][-_STEPS:]
    if any(step.tokens for step in steps):
        section.blocks.append(
            PageBlock("Groups and tokens by step", _EFFECT, trajectory_tables.groups_and_tokens(steps))
        )
    elif steps:
        section.blocks.append(PageBlock("Groups by step", table=trajectory_tables.groups(steps)))
    to_read = [
        *(Conversation(_title(sample), place, shortened(sample.messages)) for place, sample in samples.values()),
        *(
            Conversation(f"Trace {trace[:16]}", f"said-{trace}", shortened(messages))
            for trace, messages in said.items()
        ),
    ]
    if to_read:
        title = human.amount(len(to_read), "conversation")
        section.blocks.append(PageBlock(title, folded=True, conversations=to_read))
    section.blocks += [
        PageBlock(f"Spans of trace {trace[:16]}", text=_lines(bars), folded=True, anchor=places[trace])
        for trace, bars in spans.items()
    ]
    return section


def _title(sample: Sample) -> str:
    parts = [f"Sample {sample.name}"]
    if sample.rank is not None:
        parts.append(f"rank {sample.rank}")
    if sample.reward is not None:
        parts.append(f"reward {human.number(sample.reward)}")
    return ", ".join(filter(None, [*parts, sample.reason.replace("_", " ")]))


def sentences(collected: Collected) -> list[str]:
    """Return how many began, ended, and were used."""
    trajectories, of_groups = totals.of_run(collected), groups.of_run(collected)
    unfinished = max(trajectories.started - trajectories.ended, 0)
    outcomes = ", ".join(
        f"{human.number(number)} {status}" for status, number in sorted(trajectories.by_status.items())
    )
    said = [f"{human.number(trajectories.started)} began and {human.number(trajectories.ended)} ended: {outcomes}."]
    if unfinished:
        why = "they go on, or a kill lost it, so long ones may be missing here"
        said.append(f"Of {human.number(unfinished)} no end is recorded: {why}.")
    if trajectories.by_reason:
        reasons = ", ".join(f"{reason} {human.number(number)}" for reason, number in trajectories.by_reason.items())
        said.append(f"Discarded because of: {reasons}.")
    if trajectories.judged:
        said.append(f"Trained on {human.number(trajectories.trained)} of {human.number(trajectories.judged)}.")
    if trajectories.tried:
        said.append(_success(trajectories))
        said += _solved(collected, trajectories)
    said += trajectories.judge.sentence("Judges were asked")
    said += side_calls.of_batches(collected.tables)
    said += trajectories.tool_model.sentence("Tools asked models")
    said += _survivors(trajectories)
    said += _ages(trajectories)
    if of_groups.compared:
        said.append(
            f"In {human.number(of_groups.dead)} of {human.amount(of_groups.compared, 'group')} all rewards are equal: "
            "such a group teaches nothing."
        )
    said += _tokens(of_groups)
    said += _advantages(of_groups.checked)
    if trajectories.suspect:
        said.append(_suspicion(trajectories, of_groups.shift))
    if trajectories.left_out:
        said.append(f"{human.number(trajectories.left_out)} have no row: too many ended at once.")
    return said


def _success(trajectories: Totals) -> str:
    """Return how many succeeded, and of how many that is known."""
    tried, ended = human.number(trajectories.tried), human.number(trajectories.ended)
    if trajectories.tried == trajectories.ended:
        return f"{human.number(trajectories.succeeded)} of {tried} succeeded."
    if trajectories.succeeded == trajectories.tried:
        return f"Success was recorded for {tried} of {ended}, and no failure: of the others it is not known."
    return f"Success or failure was recorded for {tried} of {ended}: {human.number(trajectories.succeeded)} succeeded."


def _solved(collected: Collected, trajectories: Totals) -> list[str]:
    """Return how many problems were solved, in training and in evaluations.

    Of a program that says it of successes only these would all be 100 %.
    """
    if trajectories.succeeded == trajectories.tried < trajectories.ended:
        return []
    parts = [
        (where, pass_at_k.solved(collected, evaluation=evaluation))
        for where, evaluation in (("", False), ("In evaluations: ", True))
    ]
    return [
        f"{where}pass@1 {human.percent(solved.at_1)}, pass@{solved.k} {human.percent(solved.at_k)}, by "
        f"{human.amount(solved.groups, 'group')} of {solved.k} or more samples that say whether they succeeded."
        for where, solved in parts
        if solved is not None
    ]


def _suspicion(trajectories: Totals, shift: Shift) -> str:
    text = f"{human.number(trajectories.suspect)} got the lowest reward after they, or a call in them, had failed"
    mean, without = trajectories.mean_reward, trajectories.mean_reward_without
    if mean is None or without is None:
        return f"{text}."
    text += f"; the mean reward is {human.number(mean)} with them and {human.number(without)} without."
    if shift.samples:
        text += (
            f" They lower the mean of their groups: the advantages of {human.amount(shift.samples, 'other sample')} "
            f"there are {human.number(shift.advantage)} higher on average, in units of the reward."
        )
    return text


def _advantages(checked: Checked) -> list[str]:
    if checked.samples:
        known = human.amount(checked.samples, "advantage")
        later = human.amount(checked.rewarded_later, "advantage")
        return [
            f"{known} computed again from the rewards, {human.number(checked.differing)} differ.",
            *([f"{later} left out: rewards of the group came after them."] if checked.rewarded_later else []),
        ]
    if checked.unobserved == NO_ADVANTAGE:
        return []
    return [f"The advantages were not computed again: {checked.unobserved}."]


def _tokens(of_groups: Groups) -> list[str]:
    """Return a sentence on the share of the trained tokens with an advantage."""
    if of_groups.effective_share is None:
        return []
    share, all_tokens = human.percent(of_groups.effective_share), human.short_number(of_groups.tokens)
    return [f"{share} of the {all_tokens} tokens that were trained on have an advantage that is not zero."]


def _survivors(trajectories: Totals) -> list[str]:
    """Whether what is used is shorter than what is not."""
    used = trajectories.durations.get(TRAINED) or trajectories.durations.get(Status.FINISHED)
    unused = Spread()
    for outcome in (NOT_TRAINED,) if TRAINED in trajectories.durations else ():
        unused.merge(trajectories.durations.get(outcome, Spread()))
    if not unused.cell.count:
        for outcome in (Status.DISCARDED, Status.FAILED, Status.CANCELLED):
            unused.merge(trajectories.durations.get(outcome, Spread()))
    if used is None or min(used.cell.count, unused.cell.count) < _FEWEST:
        return []
    of_used, of_unused = used.quantile(0.5), unused.quantile(0.5)
    if of_unused < of_used * _LONGER:
        return []
    medians = human.duration(of_unused), human.duration(of_used)
    said = "Those that are not used took {} (median), those that are used {}: what is learned from is what was quick."
    return [said.format(*medians)]


def _ages(trajectories: Totals) -> list[str]:
    """Return how old samples were when the trainer took them, and whether they were being made or waited."""
    if not trajectories.ages.cell.count:
        return []
    age, in_flight, waited = (
        human.duration(spread.cell.mean) for spread in (trajectories.ages, trajectories.in_flight, trajectories.waits)
    )
    return [
        f"The trainer took samples {age} after it had asked for them (mean): {in_flight} in flight, {waited} waiting."
    ]


def _lines(timeline: Timeline) -> str:
    """Return one line per span: its start, how long it took, its name and its error."""
    lines = [
        f"{human.duration(bar.start):>10}  {human.duration(bar.seconds):>10}  {bar.row}"
        + (f"  [{bar.error}]" if bar.error else "")
        for bar in timeline.bars
    ]
    if timeline.left_out:
        lines.append(f"{human.amount(timeline.left_out, 'more span')} not listed")
    return "\n".join([f"{'starts':>10}  {'took':>10}  span", *lines])
