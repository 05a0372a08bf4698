"""Tables of late ranks: from the flight recorders, and as the job reported them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.ranks.aggregate import LateRank, LateRanks

if TYPE_CHECKING:
    from otel_rl.ranks.stragglers.run import Cost, RunComparison
    from otel_rl.report.core.collected import Collected


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
    found, left_out = collected[LateRanks].items(), collected[LateRanks].left_out
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
