"""The section with the state timeline: lanes of engines and ranks, lanes of rollouts, and of many ranks an overview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import colours, human, state_charts
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.subjects.state_timeline import fleet, packed
from otel_rl.report.subjects.state_timeline import timeline as timelines
from otel_rl.report.subjects.state_timeline.states import STATES

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts, Legend
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.state_timeline.packed import Packed
    from otel_rl.report.subjects.state_timeline.timeline import StateTimeline

KEY = "states"
#: Rows of the chart of rollouts until the script draws as many as there are.
_ROWS = 8


def build(collected: Collected, charts: Charts) -> Section:
    """Return the lanes; without steps and rollouts nothing."""
    section = Section(KEY, "State timeline", "Steps with phases bring it, and rollouts.")
    timeline = timelines.of_run(collected)
    if not timeline.ranks and not timeline.rollouts.number:
        return section
    own = {rank: totals.own.mean for rank, totals in collected.steps.ranks.items() if totals.own.count}
    content = packed.pack(timeline, own)
    seconds = (timeline.end - timeline.start) / 1e9
    section.lead = (
        "What each lane did at each moment: the innermost phase or call. Light and hatched is waiting; pale is mixed,"
        " where several are narrower than a pixel: zoom in, by dragging, to see them. Empty is not recorded."
    )
    if len(timeline.ranks) > state_charts.MOST:
        section.blocks += fleet.blocks(collected, charts, seconds)
    rows = [lane.name for lane in timeline.lanes][: state_charts.MOST]
    if rows:
        plot = state_charts.lanes("ranks", rows, seconds, content.text)
        title = "Ranks and engines" if timeline.engines and timeline.ranks else "Ranks" if timeline.ranks else "Engines"
        drawing = charts.of_plot(title, _syncs(timeline), plot, _legend(timeline), "states-ranks")
        section.blocks.append(PageBlock(charts=[drawing], anchor="states-of-ranks"))
    if timeline.rollouts.number:
        plot = state_charts.lanes("rollouts", [""] * _ROWS, seconds, "" if rows else content.text)
        drawing = charts.of_plot("Rollouts", "", plot, _legend_of_rollouts(collected), "states-rollouts")
        section.blocks.append(PageBlock(charts=[drawing], anchor="states-of-rollouts"))
    note = " ".join(_left_out(timeline, content))
    if note:
        section.blocks.append(PageBlock(note=note))
    return section


def _syncs(timeline: StateTimeline) -> str:
    return "dotted: begin of a weight sync, where there is room" if timeline.syncs else ""


def _legend(timeline: StateTimeline) -> Legend:
    times = [0.0] * len(STATES)
    for lane in timeline.lanes:
        times = [sum(pair) for pair in zip(times, lane.totals, strict=True)]
    return legend_of([place for place, time in enumerate(times) if time > 0])


def _legend_of_rollouts(collected: Collected) -> Legend:
    has_times = collected.tables.value("SELECT 1 FROM call WHERE times IS NOT NULL LIMIT 1")
    named = ("generate", "tool", "reward", *(["prefill"] if has_times else []))
    places = [place for place, state in enumerate(STATES) if state.name in named]
    return [*legend_of(places), ("waiting: in a queue, between calls", colours.WAITING)]


def legend_of(places: list[int]) -> Legend:
    """Return the states, those that wait as one."""
    working = [(STATES[place].name, STATES[place].colour) for place in places if not STATES[place].waits]
    waiting = [STATES[place].name.removeprefix("waiting ") for place in places if STATES[place].waits]
    return [*working, *([(f"waiting: {', '.join(waiting)}", colours.WAITING)] if waiting else [])]


def _left_out(timeline: StateTimeline, content: Packed) -> list[str]:
    """Say what is merged and what is missing."""
    said = []
    if content.since:
        width = human.duration(timeline.bins.width / 1e9)
        exact = human.duration((timeline.end - content.since) / 1e9)
        said.append(
            f"Exact are the last {exact} and the slowest step; before that each lane shows for every {width} the state"
            " that took most of it."
        )
    if content.shortest:
        said.append(f"Neighbours shorter than {human.duration(content.shortest / 1e9)} are merged there too.")
    if content.rollouts:
        number = human.amount(timeline.rollouts.number, "rollout")
        said.append(
            f"Of {number} with spans the latest, the longest, and the longest of the latest steps are here:"
            f" {human.number(content.rollouts)} are not."
        )
    if timeline.left_out:
        said.append(f"{human.amount(timeline.left_out, 'record')} of processes beyond 1,024 lanes are left out.")
    if timeline.misdated:
        said.append(f"{human.amount(timeline.misdated, 'span')} with a clock that is 400 days off are left out.")
    return said
