"""What the flight recorder's rings say: how a run ended that did not end in order, and which rank was late of late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.offline.postmortem import text
from otel_rl.offline.report.render import human
from otel_rl.offline.report.render.blocks import Block, Section
from otel_rl.offline.report.render.tables.cells import Table, Value, number_cell, seconds_cell

if TYPE_CHECKING:
    from otel_rl.offline.report.aggregate.collected import Collected
    from otel_rl.stragglers.run import Cost, RunComparison

#: What a late rank must cost to be worth a sentence: share of a step, seconds, share of the steps; and how many steps.
_NOTABLE_SHARE, _NOTABLE_TIME, _NOTABLE_STEPS = 0.05, 0.005, 0.5
_FEWEST_STEPS = 3

ENDING = "ending"


def ending(collected: Collected) -> Section:
    """How the run ended, first on the page; empty where all processes ended in order."""
    section = Section(ENDING, "How the run ended", "Every process with a flight recorder ended in order, or has none.")
    found = collected.rings.postmortem
    if found is None or not collected.rings.ended_badly:
        return section
    section.lead = " ".join(_sentence(line) for line in text.verdict(found))
    when = "now" if found.is_running else "the last sign of the run"
    table = Table([title.capitalize() for title in text.TITLES], shown=24)
    table.rows += [[Value(cell) for cell in row] for row in text.rows(found)]
    section.blocks.append(Block(note=f"Where each rank was; times before {when}.", table=table))
    waits = [*text.waits(found), *text.unknown(found)]
    if waits:
        section.blocks.append(Block("Who waited for whom", text="\n".join(waits)))
    if found.notes:
        section.blocks.append(Block("Rings", text="\n".join(found.notes)))
    return section


def ending_finding(collected: Collected) -> list[tuple[str, str, str]]:
    """The first sentence of that section."""
    found = collected.rings.postmortem
    if found is None or not collected.rings.ended_badly:
        return []
    return [("bad", _sentence(text.verdict(found)[0]), ENDING)]


def late_rank(collected: Collected) -> str | None:
    """A sentence on the rank without which the last steps would have been shorter; None where no rank is worth it."""
    comparison = collected.rings.comparison
    costs = comparison.costs() if comparison is not None else []
    if comparison is None or not costs or len(comparison.steps) < _FEWEST_STEPS:
        return None
    cost = costs[0]
    is_notable = cost.share >= _NOTABLE_SHARE and cost.lost >= _NOTABLE_TIME
    if not is_notable or cost.steps < _NOTABLE_STEPS * len(comparison.steps):
        return None
    phase = (
        f", which works longer in phase {cost.phase}" if cost.phase else ", which works longer outside of all phases"
    )
    last = len(comparison.steps)
    steps = f"the last {last} steps" if cost.steps == last else f"{cost.steps} of the last {last} steps"
    return (
        f"Without rank {cost.rank}{phase}, {steps} would have been {human.duration(cost.lost)}"
        f" ({human.percent(cost.share)}) shorter each for the others, who waited in {cost.operation}."
    )


def stragglers(collected: Collected) -> list[Block]:
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
    return [Block("Who made the others wait, of late", note, table)]


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
