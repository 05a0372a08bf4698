"""What the flight recorder's rings say: how a run ended that did not end in order, and which rank was late of late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.ranks.postmortem import dump_text, text
from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.endings import finding as endings
from otel_rl.report.subjects.memory import section as pressure_section

if TYPE_CHECKING:
    from otel_rl.ranks.stragglers.run import Cost, RunComparison
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.ranks.aggregate import LateRank


def ending(collected: Collected, charts: Charts) -> Section:
    """How the run ended, first on the page; empty where all processes ended in order."""
    filler = "Every process with a flight recorder ended in order, or has none."
    section = Section(endings.SECTION, "How the run ended", filler)
    found = collected.rings.postmortem
    if found is None or not collected.rings.ended_badly:
        return section
    section.lead = " ".join(_sentence(line) for line in text.verdict(found))
    when = "now" if found.is_running else "the last sign of the run"
    table = Table([title.capitalize() for title in text.TITLES], shown=24)
    table.rows += [[Value(cell) for cell in row] for row in text.rows(found)]
    section.blocks.append(PageBlock(note=f"Where each rank was; times before {when}.", table=table))
    waits = [*text.waits(found), *text.unknown(found), *text.differences(found)]
    if waits:
        section.blocks.append(PageBlock("Who waited for whom", text="\n".join(waits)))
    dumped = text.dump_rows(found)
    if dumped:
        dumps = Table([title.capitalize() for title in dump_text.TITLES], shown=24)
        dumps.rows += [[Value(cell) for cell in row] for row in dumped]
        note = f"The last collective of each rank and group; times before {when}."
        section.blocks.append(PageBlock("PyTorch's flight recorder", note, dumps))
    section.blocks += pressure_section.memory(collected, charts, "Memory up to the end")
    notes = text.notes(found)
    if notes:
        section.blocks.append(PageBlock("Rings and dumps", text="\n".join(notes)))
    return section


def stragglers(collected: Collected) -> list[PageBlock]:
    """What each rank cost the others in the last steps."""
    comparison = collected.rings.comparison
    if comparison is None or not comparison.costs():
        return []
    table = Table(
        ["Late rank", ">In steps", ">Lost per step", ">Share of a step", "Others waited in", "Works longer in"]
    )
    table.rows += [_cost(cost) for cost in comparison.costs()]
    note = (
        f"The last {len(comparison.steps)} steps in the flight recorders, each replayed without the rank that was"
        f" latest: so much earlier the others would have ended it.{_clocks(comparison)}"
    )
    return [PageBlock("Who made the others wait, of late", note, table)]


def told_stragglers(collected: Collected) -> list[PageBlock]:
    """Ranks of which the job told, while it ran, that they were late."""
    found, left_out = collected.late_ranks.items(), collected.late_ranks.left_out
    if not found:
        return []
    table = Table(
        ["Late rank", ">From step", ">To step", ">Lost per step", ">Share of a step", "Waited in", "Works longer in"]
    )
    table.rows += [_told(one) for one in found]
    places = [_place(one, collected) for one in found]
    if any(places):
        table.columns = [*table.columns, "Of"]
        for row, place in zip(table.rows, places, strict=True):
            row.append(Value(place or "the steps above"))
    note = "Told when a rank was the late one in eight compared steps in a row; means over these."
    if left_out:
        note += f" {human.amount(left_out, 'further one')} not listed."
    return [PageBlock("Late ranks, as told while the job ran", note, table)]


def _told(one: LateRank) -> list[Value]:
    return [
        Value(f"rank {one.rank}" + (f" ({one.host})" if one.host else ""), one.rank),
        number_cell(one.since),
        _end(one),
        seconds_cell(one.lost),
        Value(human.percent(one.share), one.share),
        Value(one.operation),
        Value(one.phase or "no phase"),
    ]


def _end(one: LateRank) -> Value:
    if one.until is None:
        return Value("not over")
    return Value(f"{one.until} at the latest", one.until) if one.is_end_lost else number_cell(one.until)


def _place(one: LateRank, collected: Collected) -> str:
    """Its attempt and loop, where the page shows the steps of another; what is not known of its steps."""
    shown = collected.loops.shown
    of = shown._replace(attempt=one.attempt, loop=one.loop)
    if not collected.steps.ranks:
        return ""
    if of != shown:
        return collected.loops.name(of)
    return "the steps above, or those before their numbers began again" if shown.again else ""


def _cost(cost: Cost) -> list[Value]:
    return [
        Value(f"rank {cost.rank}", cost.rank),
        number_cell(cost.steps),
        seconds_cell(cost.lost),
        Value(human.percent(cost.share), cost.share),
        Value(cost.operation),
        Value(cost.phase or "no phase"),
    ]


def _clocks(comparison: RunComparison) -> str:
    """How well the clocks of several nodes could be brought together."""
    if not comparison.offsets:
        return ""
    errors = [offset.error for offset in comparison.offsets.values()]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return " The clocks of the nodes are only as near to each other as their wall clocks."
    return f" The clocks of the nodes agree to {human.duration(max(known) / 1e9)}."


def _sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:]}."
