"""The sections of the page, in reading order; one without data says what would fill it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.offline.report import collectives, human, summary, tables
from otel_rl.offline.report.problems import internal_errors

if TYPE_CHECKING:
    from otel_rl.offline.report.charts import Charts, Drawing
    from otel_rl.offline.report.collect import Collected
    from otel_rl.offline.report.timeline import Timeline

_SMALL_CHARTS = 60


@dataclass(slots=True)
class Block:
    """A piece of a section: a table, charts (side by side when several), text lines, or preformatted text."""

    title: str = ""
    note: str = ""
    table: tables.Table | None = None
    charts: list[Drawing] = field(default_factory=list)
    text: str = ""
    folded: bool = False


@dataclass(slots=True)
class Section:
    """``blocks`` is empty where the run has no such data; ``filler`` then says what would bring it."""

    key: str
    title: str
    filler: str
    lead: str = ""
    blocks: list[Block] = field(default_factory=list)


def build(collected: Collected, charts: Charts) -> list[Section]:
    """All sections, with or without data."""
    sections = [
        _steps(collected, charts),
        _training(collected, charts),
        _ranks(collected, charts),
        _rollouts(collected, charts),
        _tools(collected),
        _models(collected),
        _rewards(collected, charts),
        _errors(collected),
        _processes(collected),
        _telemetry(collected),
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
        return section
    section.lead = "Time of each step by phase, mean over the ranks; every phase without the phases inside it."
    section.lead += _per(steps.phases.width)
    section.blocks.append(Block(charts=[charts.phases("Step time by phase", steps)]))
    section.blocks.append(Block(table=tables.phases(steps)))
    section.blocks += [_timeline("Slowest step: ", one, charts) for one in collected.slowest_step]
    return section


def _timeline(prefix: str, timeline: Timeline, charts: Charts) -> Block:
    hint = f"{human.amount(timeline.left_out, 'more span')} not drawn" if timeline.left_out else ""
    return Block(charts=[charts.timeline(prefix + timeline.title, hint, timeline)])


def _training(collected: Collected, charts: Charts) -> Section:
    scalars = collected.scalars
    filler = "Curves come from what the trainer logs (a supported trainer's log calls), or from otel_rl.metric()."
    section = Section("training", "Training curves", filler)
    over_time = scalars.over_time
    x_label = "time (s)" if over_time else charts.STEP
    panels = [charts.curves(panel.title, panel.hint, curves, x_label=x_label) for panel, curves in scalars.panels()]
    rest = scalars.rest()
    if not panels and not rest:
        return section
    section.lead = "As the trainer logged it. Zoom by dragging; all charts over steps follow."
    if over_time:
        section.lead = "From gauges over time: the run holds no log record of the trainer's values."
    section.lead += _per(scalars.logged.width)
    if panels:
        section.blocks.append(Block(charts=panels))
    if rest:
        small = [charts.curves(curve.name, "", [curve], height=150) for curve in rest[:_SMALL_CHARTS]]
        left = [curve.name for curve in rest[_SMALL_CHARTS:]] + sorted(scalars.keys_left_out)
        note = f"Not drawn: {summary.listed(left)}." if left else ""
        title = f"Everything else the trainer logged ({len(rest)})"
        section.blocks.append(Block(title, note, charts=small, folded=bool(panels)))
    if scalars.not_finite:
        said = ", ".join(f"{key} ({number})" for key, number in sorted(scalars.not_finite.items()))
        section.blocks.append(Block(text=f"Values that were not finite and are not drawn: {said}."))
    return section


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
        hint = "step time without time in collectives"
        section.blocks.append(Block(charts=[charts.ranks("Own work per step", hint, steps.own.lines())]))
        section.blocks.append(Block(table=tables.ranks(steps, compared)))
    if found:
        section.blocks.append(Block("Collectives", "All ranks together.", tables.collective_totals(found)))
    slow = steps.slowest_collectives.items()
    if slow:
        section.blocks.append(Block("Slowest single collectives", table=tables.slow_collectives(slow)))
    return section


def _rollouts(collected: Collected, charts: Charts) -> Section:
    calls = collected.calls
    filler = (
        "Rollouts come from otel_rl.rollout() or an agent framework; "
        "samples that a trainer generates in one batch have no span of their own."
    )
    section = Section("rollouts", "Rollouts and agents", filler)
    slow = calls.slowest_rollouts.items()
    if slow:
        statistics = tables.calls([calls.rollouts], "All rollouts")
        section.blocks.append(Block(table=statistics))
        section.blocks.append(Block("Slowest rollouts", table=tables.slow_calls(slow, "Rollout", "Belongs to")))
        section.blocks += [_timeline("Slowest rollouts: ", one, charts) for one in collected.slowest_rollouts]
    agents = calls.agents(collected.totals)
    if agents:
        section.blocks.append(Block("Agents", table=tables.calls(agents, "Agent")))
    return section


def _tools(collected: Collected) -> Section:
    filler = "Tool calls come from tools given to a supported trainer or agent framework, or from otel_rl.tool()."
    section = Section("tools", "Tool calls", filler)
    found = collected.calls.tools(collected.totals)
    if found:
        section.blocks.append(Block(table=tables.calls(found, "Tool")))
    slow = collected.calls.slowest_tools.items()
    if slow:
        section.blocks.append(Block("Slowest calls", table=tables.slow_calls(slow, "Tool")))
    return section


def _models(collected: Collected) -> Section:
    filler = "Model calls come from a client library such as openai, called by this run."
    section = Section("models", "Model calls", filler)
    found = collected.calls.models(collected.totals)
    if found:
        section.blocks.append(Block(table=tables.models(found)))
    slow = collected.calls.slowest_model_calls.items()
    if slow:
        section.blocks.append(Block("Slowest calls", table=tables.slow_calls(slow, "Call", "Tokens (in / out)")))
    return section


def _rewards(collected: Collected, charts: Charts) -> Section:
    filler = "Scores come from the reward functions of a supported trainer, or from otel_rl.reward()."
    section = Section("rewards", "Rewards", filler)
    table = tables.rewards(collected)
    if not table.rows:
        return section
    section.blocks.append(Block(table=table))
    sequence = collected.rewards.curves()
    if sequence:
        title = "Scores in the order in which they came"
        section.blocks.append(Block(charts=[charts.curves(title, "", sequence, x_label="evaluation")]))
    return section


def _errors(collected: Collected) -> Section:
    problems = collected.problems
    section = Section("errors", "Errors", "No error was recorded: no failed span, no log record of severity ERROR.")
    for one in problems.exceptions:
        at = f", step {one.iteration}" if one.iteration is not None else ""
        title = f"{one.who} died of {one.kind}{at}"
        section.blocks.append(Block(title, one.message, text=one.stacktrace, folded=True))
    table = tables.errors(collected)
    if table.rows:
        left = problems.groups_left_out
        note = f"{left} further errors of other kinds are not listed." if left else ""
        section.blocks.append(Block(note=note, table=table))
    return section


def _processes(collected: Collected) -> Section:
    section = Section("processes", "Who reported", "No process left a manifest or a record.")
    facts = summary.summarise(collected)
    offsets = collectives.clock_offsets(collected.totals)
    table = tables.processes(collected, offsets)
    if facts.missing:
        ranks = summary.listed([str(rank) for rank in facts.missing])
        section.lead = (
            f"Of {facts.world_size} ranks these did not report: {ranks}. They never started, could not write, "
            "or their files were not copied here."
        )
    elif facts.world_size:
        section.lead = f"All {facts.world_size} ranks reported."
    elif facts.reported:
        section.lead = "The world size is not known, so a missing rank cannot be told."
    if table.rows:
        section.blocks.append(Block(table=table))
    return section


def _telemetry(collected: Collected) -> Section:
    section = Section("telemetry", "Telemetry health", "")
    table = tables.dropped(collected)
    unreadable = summary.unreadable(collected)
    if table.rows:
        section.blocks.append(Block("Dropped", "Items that a process could not deliver.", table))
    if unreadable:
        section.blocks.append(Block("Not read", unreadable, text="\n".join(collected.reader.problems.errors)))
    if collected.reader.left_out:
        said = f"{human.amount(collected.reader.left_out, 'record')} of other runs in the same files."
        section.blocks.append(Block("Left out", said))
    sites = internal_errors(collected.totals)
    if sites:
        said = "\n".join(f"{site}: {number}" for site, number in sites.items())
        section.blocks.append(Block("Errors inside the instrumentation", text=said))
    if not section.blocks:
        section.blocks.append(Block(note="Nothing was dropped, and every line could be read."))
    outcomes = tables.instrumentors(collected)
    if outcomes.rows:
        section.blocks.append(Block("Instrumentors", table=outcomes))
    return section
