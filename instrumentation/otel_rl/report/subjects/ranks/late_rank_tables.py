"""Tables of late ranks: from the flight recorders, and as the job reported them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.loops import written
from otel_rl.report.subjects.ranks.reported import late_ranks

if TYPE_CHECKING:
    from otel_rl.ranks.stragglers.run import Cost, RunComparison
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.subjects.ranks.reported import LateRank

#: Stretches that are listed.
_LISTED = 1000


def stragglers(collected: Collected) -> list[PageBlock]:
    """Return what each rank cost the others in the last steps."""
    comparison = collected.rings.comparison
    if comparison is None:
        return []
    costs = comparison.costs()
    if not costs:
        return [PageBlock("Who made the others wait, of late", f"{human.capital(comparison.incomplete)}.")] * bool(
            comparison.not_whole
        )
    table = Table(
        [
            "Late rank", ">In steps", ">Lost in each", ">Share of all steps", ">Alone", "Others waited in",
            "Works longer in",
        ]
    )  # fmt: skip
    table.rows += [_cost(cost, comparison, collected.steps) for cost in costs]
    incomplete = f" {human.capital(comparison.incomplete)}: they are left out." if comparison.not_whole else ""
    note = (
        f"The last {len(comparison.steps)} steps in the flight recorders, each replayed with the late ranks as fast as"
        " the fastest: so much earlier the others would have ended it, at most by what that rank worked longer."
        " *Alone*: with that rank mended only. Some rank is the latest in each step by chance: a finding is one that is"
        " late more often than chance explains, and costs at least"
        f" {human.percent(thresholds.NOTABLE_SHARE)} of a step.{incomplete}"
        f"{_clocks(comparison)}"
    )
    return [PageBlock("Who made the others wait, of late", note, table)]


def reported_stragglers(collected: Collected) -> list[PageBlock]:
    """Return the ranks that the job reported as late while it ran."""
    known = late_ranks(collected)
    stretches, left_out = known[:_LISTED], len(known[_LISTED:])
    if not stretches:
        return []
    table = Table(
        ["Late rank", ">From step", ">To step", ">Lost per step", ">Share of a step", "Waited in", "Works longer in"]
    )
    table.rows += [_reported(stretch, collected.steps) for stretch in stretches]
    places = [_place(stretch, collected) for stretch in stretches]
    if any(places):
        table.columns = [*table.columns, "Of"]
        for row, place in zip(table.rows, places, strict=True):
            row.append(Value(place or "the steps above"))
    note = "Told when a rank was late again and again, in eight steps at least; means over the steps since the first."
    if left_out:
        note += f" {human.amount(left_out, 'further one')} not listed."
    return [PageBlock("Late ranks, as told while the job ran", note, table)]


def _reported(stretch: LateRank, steps: Steps) -> list[Value]:
    return [
        Value(f"rank {stretch.rank}" + (f" ({stretch.host})" if stretch.host else ""), stretch.rank),
        number_cell(stretch.since),
        _end(stretch),
        seconds_cell(stretch.lost),
        Value(human.percent(stretch.share), stretch.share),
        Value(stretch.operation),
        _phase(stretch.phase, steps),
    ]


def _phase(phase: str, steps: Steps) -> Value:
    """Return the phase; of steps that are guessed a flight recorder knows few."""
    return Value(phase or (human.UNKNOWN if steps.guessed else "no phase"))


def _end(stretch: LateRank) -> Value:
    if stretch.until is None:
        return Value("not over")
    return Value(f"{stretch.until} at the latest", stretch.until) if stretch.is_end_lost else number_cell(stretch.until)


def _place(stretch: LateRank, collected: Collected) -> str:
    """Return its attempt and loop, where the page shows the steps of another; what is not known of its steps."""
    shown = collected.loops.shown
    of = shown._replace(attempt=written(stretch.attempt), loop=stretch.loop)
    if not collected.steps.ranks:
        return ""
    if of != shown:
        return collected.loops.name(of)
    return "the steps above, or those before their numbers began again" if shown.restarts else ""


def _cost(cost: Cost, comparison: RunComparison, steps: Steps) -> list[Value]:
    return [
        Value(f"rank {cost.rank}", cost.rank),
        Value(f"{cost.steps} of {len(comparison.steps)}", cost.steps),
        seconds_cell(cost.lost),
        Value(human.percent(cost.share), cost.share),
        seconds_cell(cost.alone),
        Value(cost.operation),
        _phase(cost.phase, steps),
    ]


def _clocks(comparison: RunComparison) -> str:
    """Return how well the clocks of several nodes could be brought together."""
    if not comparison.offsets:
        return ""
    errors = [offset.error for offset in comparison.offsets.values()]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return " The clocks of the nodes are only as near to each other as their wall clocks."
    return f" The clocks of the nodes agree to {human.duration(max(known) / 1e9)}."
