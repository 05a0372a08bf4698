"""The rank that came last in the collectives of NCCL, by the time that each rank's device spent in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.ranks.stragglers.lasting import chance
from otel_rl.report.core import human, thresholds
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.ranks import device_waits
from otel_rl.semconv.attributes import TorchDistributedTimingValues as Timing

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.ranks.device_waits import AttemptWaits

#: Collectives with a long wait that it takes: one step may have several.
_FEWEST = 8
#: Why there are no times, and what to do.
_MISSING = {
    Timing.OFF: "nothing can be said of who is late on NCCL without OTEL_RL_NCCL_TIMING=on",
    Timing.REFUSED: "a variable of PyTorch that is set keeps NCCL's collectives from being timed; the job's standard"
    " error names it",
    Timing.UNAVAILABLE: "nothing can be said of who is late on NCCL: this PyTorch cannot be asked, 2.8 can",
}
_UPPER = (
    "The rank whose device spent least time in a collective came last, and the others waited for it at most by what"
    " theirs spent more: communication may overlap computation."
)


def add_to(late: list[Finding], collected: Collected) -> list[Finding]:
    """Add who came last to the findings on late ranks: below that on the same rank, or as one of its own."""
    found = _finding(collected)
    if found is None:
        return late
    same = next((finding for finding in late if finding.ranks == found.ranks), None)
    if same is None:
        return [*late, found]
    same.evidence.append(found.text)
    return late


def check(collected: Collected, what: str, codes: tuple[str, ...]) -> Check | None:
    """Return whether the ranks could be compared where NCCL is used, and the host does not wait; else None."""
    waits = device_waits.latest(collected)
    if waits is None:
        return None
    if not waits.is_timed:
        return Check.not_recorded(what, reason(waits), codes)
    compared = waits.arrivals.compared
    if not compared:
        return Check.not_recorded(what, "no collective of NCCL was timed by all ranks of its group", codes)
    basis = f"{human.amount(compared, 'collective')} of NCCL, timed by all their ranks"
    return Check.of(what, compared, _FEWEST, "collective", codes, basis)


def reason(waits: AttemptWaits) -> str:
    """Return why the collectives are not timed, and what to do."""
    return next((text for state, text in _MISSING.items() if state in waits.states), _MISSING[Timing.OFF])


def blocks(collected: Collected) -> list[PageBlock]:
    """Return the ranks that came last, in a table."""
    waits = device_waits.latest(collected)
    if waits is None:
        return []
    title = "Who came last, by the devices"
    if not waits.is_timed:
        return [PageBlock(title, f"{reason(waits).capitalize()}.")]
    arrivals = waits.arrivals
    table = Table(
        ["Rank", ">Came last in", ">With a long wait", ">Others waited, at most", ">Of their time", "Mostly in"]
    )
    for last in arrivals.ranks():
        share = waits.share(last.waited)
        table.rows.append(
            [
                Value(f"rank {last.rank}", last.rank),
                number_cell(last.collectives),
                number_cell(last.long),
                seconds_cell(last.waited / last.long if last.long else None),
                Value(human.UNKNOWN if share is None else f"at most {human.percent(share)}", share),
                Value(_place(last.places)),
            ]
        )
    return [PageBlock(title, f"{_UPPER}{_extent(waits)}", table if table.rows else None)]


def _extent(waits: AttemptWaits) -> str:
    """Return of how many collectives this is, and what is missing."""
    arrivals = waits.arrivals
    text = f" Of {human.amount(arrivals.compared, 'collective')} that all ranks have timed."
    if arrivals.incomplete:
        text += f" Of {human.number(arrivals.incomplete)} more the times of some ranks are missing."
    if arrivals.halvings:
        text += f" One in {2**arrivals.halvings} was looked at."
    if waits.left_out:
        text += f" Up to {human.number(waits.left_out)} have no times, over all ranks."
    return text


def _finding(collected: Collected) -> Finding | None:
    waits = device_waits.latest(collected)
    ranks = waits.arrivals.ranks() if waits is not None else []
    if waits is None or not ranks:
        return None
    last, long = ranks[0], waits.arrivals.long
    share = waits.share(last.waited)
    number = max(len(collected.steps.ranks), 2)
    if last.long < _FEWEST or share is None or share < thresholds.NOTABLE_SHARE:
        return None
    # The rank has been picked from all of them.
    by_chance = number * chance(last.long, long, 1 / number)
    if last.long < thresholds.LATE_STEPS * long or by_chance > thresholds.LATE_BY_CHANCE:
        return None
    text = (
        f"Rank {last.rank} came last in {last.long} of the {human.amount(long, 'collective')} in which ranks waited"
        f" long: the others waited for it at most {human.duration(last.waited / last.long)} in each, at most"
        f" {human.percent(share)} of their time, mostly in {_place(last.places)}."
    )
    return Finding(
        "late_rank", Severity.WARNING, text, "ranks", cost=share, ranks=[last.rank], evidence=[_UPPER],
        look_at=[f"Host, device and data of rank {last.rank}, against those of the others."],
    )  # fmt: skip


def _place(places: dict[tuple[str, str], float]) -> str:
    if not places:
        return human.UNKNOWN
    operation, group = max(places, key=places.__getitem__)
    return f"{operation} of group {group}"
