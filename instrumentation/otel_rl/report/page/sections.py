"""The sections of the page, in reading order; one without data says what would fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences
from otel_rl.report.core import steps as steps_module
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.subjects.calls import call_tables
from otel_rl.report.subjects.calls import over_time_charts as over_time
from otel_rl.report.subjects.endings import section as ring_sections
from otel_rl.report.subjects.engines import section as engine_section
from otel_rl.report.subjects.errors import section as problem_sections
from otel_rl.report.subjects.memory import section as pressure_section
from otel_rl.report.subjects.ranks import collectives
from otel_rl.report.subjects.steps import step_tables as training_tables
from otel_rl.report.subjects.trajectories import section as trajectory_section

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.subjects.training.aggregate import Curve

_SMALL_CHARTS = 60
_TIME = "time (s)"


def build(collected: Collected, charts: Charts) -> list[Section]:
    """All sections, with or without data."""
    sections = [
        ring_sections.ending(collected, charts),
        _steps(collected, charts),
        _training(collected, charts),
        _ranks(collected, charts),
        _rollouts(collected, charts),
        trajectory_section.build(collected),
        _tools(collected, charts),
        _models(collected, charts),
        engine_section.build(collected, charts),
        _rewards(collected, charts),
        pressure_section.build(collected, charts),
        problem_sections.errors(collected),
        problem_sections.processes(collected),
        problem_sections.telemetry(collected),
    ]
    charts.close()
    return sections


def _per(width: int) -> str:
    return f" Every point stands for {width} steps." if width > 1 else ""


def _steps(collected: Collected, charts: Charts) -> Section:
    steps = collected.steps
    filler = "Steps come from a supported trainer, or from otel_rl.step() around each iteration of your own loop."
    section = Section("steps", "Where step time goes", filler)
    if not steps.ranks:
        return _without_steps(section, collected)
    section.lead = "Time of each step by phase, mean over the ranks; every phase without the phases inside it."
    section.lead += _per(steps.phases.width) + _between_phases(steps)
    section.blocks.append(PageBlock(charts=[charts.phases("Step time by phase", steps)]))
    section.blocks.append(PageBlock(table=training_tables.phases(steps)))
    stages = training_tables.sync_stages(collected)
    if stages.rows:
        note = "Operations on engines of all processes; those on weights are the phase sync or a part of it."
        section.blocks.append(PageBlock("Weight sync by stage", note, stages))
    if collected.loops.others():
        section.lead += f" Charts over steps show this alone: {collected.loops.title}."
        left_out = human.amount(collected.loops.left_out, "older part") if collected.loops.left_out else ""
        note = f"{left_out} of a loop not kept." if left_out else ""
        section.blocks.append(PageBlock("Loops and attempts", note, table=training_tables.loops(collected.loops)))
    section.blocks += [_timeline("Slowest step: ", one, charts) for one in collected.slowest_step]
    return section


def _between_phases(steps: Steps) -> str:
    """What lies between steps, and what no phase of a step covers."""
    count = steps.lengths.cell.count
    waited, uncovered = steps.waits.cell.total / count, steps.uncovered.cell.total / count
    share = uncovered / steps.lengths.cell.mean if steps.lengths.cell.mean else 0.0
    text = f" Between steps a rank waits {human.duration(waited)} for data on average." if waited else ""
    return f"{text} {human.duration(uncovered)} of a step ({human.percent(share)}) are in no phase (uncovered)."


def _without_steps(section: Section, collected: Collected) -> Section:
    spreads = steps_module.from_histograms(collected.totals) or collected.steps.inclusive
    if spreads:
        section.lead = "No step trace was recorded; these are the durations of the phases alone."
        section.blocks.append(PageBlock(table=training_tables.durations(spreads)))
    return section


def _timeline(prefix: str, timeline: Timeline, charts: Charts) -> PageBlock:
    hint = f"{human.amount(timeline.left_out, 'more span')} not drawn" if timeline.left_out else ""
    return PageBlock(charts=[charts.timeline(prefix + timeline.title, hint, timeline)])


def _training(collected: Collected, charts: Charts) -> Section:
    scalars = collected.scalars
    filler = "Curves come from what the trainer logs (a supported trainer's log calls), or from otel_rl.metric()."
    section = Section("training", "Training curves", filler)
    panels = [
        charts.curves(panel.title, panel.hint, curves, x_label=_TIME if curves[0].over_time else charts.STEP)
        for panel, curves in scalars.panels()
    ]
    if panels:
        section.blocks.append(PageBlock(charts=panels))
        section.lead = "As the trainer logged it. Zoom by dragging; all charts over steps follow."
        if scalars.over_time:
            section.lead = "From gauges over time, a point for each export: no log record has these values."
        section.lead += _per(scalars.logged.width)
    section.blocks += _others("Everything else the trainer logged", scalars.rest(), charts, charts.STEP)
    section.blocks += _others("Values recorded over time", scalars.sampled(), charts, _TIME)
    if scalars.keys_left_out:
        left_out = human.listed(sorted(scalars.keys_left_out))
        section.blocks.append(PageBlock(note=f"More keys were logged than fit on a page; left out: {left_out}."))
    if scalars.not_finite:
        said = ", ".join(f"{key} ({number})" for key, number in sorted(scalars.not_finite.items()))
        section.blocks.append(PageBlock(note=f"Values that were not finite and are not drawn: {said}."))
    return section


def _others(title: str, found: tuple[list[Curve], list[Curve]], charts: Charts, x_label: str) -> list[PageBlock]:
    curves, constant = found
    once = [curve for curve in constant if curve.number == 1]
    throughout = [curve for curve in constant if curve.number > 1]
    blocks = []
    if curves:
        small = [
            charts.curves(curve.name, "", [curve], height=150, x_label=x_label) for curve in curves[:_SMALL_CHARTS]
        ]
        left_out = [curve.name for curve in curves[_SMALL_CHARTS:]]
        note = f"Not drawn: {human.listed(left_out)}." if left_out else ""
        blocks.append(PageBlock(f"{title} ({len(curves)})", note, charts=small, folded=True))
    for words, same in (("one value throughout", throughout), ("one point only", once)):
        if same:
            said = ", ".join(f"{curve.name} {human.number(curve.y[0])}" for curve in same)
            blocks.append(PageBlock(f"{title}: {words} ({len(same)})", said, folded=True))
    return blocks


def _ranks(collected: Collected, charts: Charts) -> Section:
    steps = collected.steps
    filler = "Ranks and collectives come from torch.distributed; this run used none of it, or nothing recorded it."
    section = Section("ranks", "Ranks and collectives", filler)
    several = len([rank for rank in steps.ranks if rank is not None]) > 1
    found = collectives.table(collected.totals)
    if several:
        compared = steps.count_slowest()
        section.lead = (
            "A rank that works longer than the others reaches the collectives last, and they wait for it."
            + _per(steps.own.width)
        )
        if steps.unseen.count:
            section.lead += f" {sentences.unseen(steps)}"
        hint = "step time without time in collectives"
        if steps.seen.count:
            drawing = charts.ranks("Own work per step", hint, steps.own.lines(), "own-work")
            section.blocks.append(PageBlock(charts=[drawing]))
        section.blocks.append(PageBlock(table=training_tables.ranks(steps, compared)))
        section.blocks += ring_sections.stragglers(collected)
    section.blocks += ring_sections.told_stragglers(collected)
    if found:
        section.blocks.append(PageBlock("Collectives", "All ranks together.", training_tables.collective_totals(found)))
    slow = steps.slowest_collectives.items()
    if slow:
        section.blocks.append(PageBlock("Slowest single collectives", table=training_tables.slow_collectives(slow)))
    return section


def _rollouts(collected: Collected, charts: Charts) -> Section:
    calls = collected.calls
    filler = (
        "Rollouts come from otel_rl.rollout() or an agent framework; "
        "samples that a trainer generates in one batch have no span of their own."
    )
    section = Section("rollouts", "Rollouts and agents", filler)
    slow = calls.rollouts.slowest.items()
    if slow:
        statistics = call_tables.calls([calls.rollouts.statistics], "Rollouts")
        section.blocks.append(PageBlock(table=statistics))
        section.blocks += over_time.rollouts(collected, charts)
        section.blocks.append(PageBlock("Slowest rollouts", table=call_tables.slow_rollouts(slow)))
        section.blocks += [_timeline("Slowest rollouts: ", one, charts) for one in collected.slowest_rollouts]
    agents = calls.agents(collected.totals)
    if agents:
        section.blocks.append(PageBlock("Agents", table=call_tables.calls(agents, "Agent")))
    return section


def _tools(collected: Collected, charts: Charts) -> Section:
    filler = "Tool calls come from tools given to a supported trainer or agent framework, or from otel_rl.tool()."
    section = Section("tools", "Tool calls", filler)
    found = collected.calls.tools(collected.totals)
    if found:
        section.blocks.append(PageBlock(table=call_tables.calls(found, "Tool")))
    section.blocks += over_time.tools(collected, charts)
    slow = collected.calls.slowest_tools.items()
    if slow:
        section.blocks.append(PageBlock("Slowest calls", table=call_tables.slow_calls(slow, "Tool")))
    return section


def _models(collected: Collected, charts: Charts) -> Section:
    filler = "Model calls come from a client library such as openai, called by this run."
    section = Section("models", "Model calls", filler)
    found = collected.calls.models(collected.totals)
    if found:
        section.blocks.append(PageBlock(table=call_tables.models(found)))
    section.blocks += over_time.models(collected, charts)
    slow = collected.calls.slowest_model_calls.items()
    if slow:
        section.blocks.append(
            PageBlock("Slowest calls", table=call_tables.slow_calls(slow, "Call", "Tokens (in / out)"))
        )
    return section


def _rewards(collected: Collected, charts: Charts) -> Section:
    filler = "Scores come from the reward functions of a supported trainer, or from otel_rl.reward()."
    section = Section("rewards", "Rewards", filler)
    table = training_tables.rewards(collected)
    if not table.rows:
        return section
    section.blocks.append(PageBlock(table=table))
    section.blocks += over_time.rewards(collected, charts)
    sequence = collected.rewards.curves()
    if sequence:
        title = "Scores in the order in which they came"
        section.blocks.append(PageBlock(charts=[charts.curves(title, "", sequence, x_label="evaluation")]))
    return section
