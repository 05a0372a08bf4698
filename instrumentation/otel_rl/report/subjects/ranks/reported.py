"""Ranks that the job reported as late while it ran: events of :mod:`otel_rl.ranks.stragglers`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.collected import asked_once
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log


@dataclass(frozen=True, slots=True)
class LateRank:
    """A stretch of steps in which one rank was late.

    Attributes:
        loop: name of the loop that took the steps.
        since, until: iterations; ``until`` is None where it is not over.
        lost, share: seconds, and share of a step, that the others lost in each.
        alone, all_lost: seconds of it that mending this rank alone gives back, and that mending all late ones does.
        beside: ranks that were late with it.
        operation: collective in which they waited.
        phase: the one in which the rank worked longer than the others; ``""`` outside of all.
    """

    attempt: tuple[int, ...]
    loop: str
    rank: int
    host: str
    since: int
    until: int | None
    lost: float
    share: float
    operation: str
    phase: str
    alone: float
    all_lost: float
    beside: tuple[int, ...] = ()
    #: The event of its end did not come, but one of a later stretch: ``until`` is the last step before that.
    is_end_lost: bool = False

    @property
    def last(self) -> float:
        """Last iteration; infinite where it is not over."""
        return inf if self.until is None else self.until


@asked_once
def late_ranks(collected: Collected) -> list[LateRank]:
    """Return all of them, by attempt, loop and first step."""
    #: By the process that reported it, rank, loop and first step: the event of the end has all that the first had.
    found: dict[tuple[str, int, str, int], LateRank] = {}
    told, ended = (collected.tables.events(event.name) for event in (events.RL_STRAGGLER, events.RL_STRAGGLER_END))
    for log in chain(told, ended):
        if (stretch := _stretch(log)) is not None:
            found[log.process.key, stretch.rank, stretch.loop, stretch.since] = stretch
    lines: dict[tuple[tuple[int, ...], str, int], list[LateRank]] = {}
    for stretch in found.values():
        lines.setdefault((stretch.attempt, stretch.loop, stretch.rank), []).append(stretch)
    stretches = [stretch for line in lines.values() for stretch in _ended(line)]
    return sorted(
        stretches, key=lambda stretch: (stretch.attempt, stretch.loop, stretch.since, stretch.rank, stretch.last)
    )


def _stretch(log: Log) -> LateRank | None:
    get = log.attributes.get
    rank, since = int_or_none(get(names.RL_STRAGGLER_RANK)), int_or_none(get(names.RL_STRAGGLER_FIRST_ITERATION))
    lost, share = _positive(get(names.RL_STRAGGLER_LOST_TIME)), _positive(get(names.RL_STRAGGLER_LOST_SHARE))
    if rank is None or since is None or lost is None or share is None:
        return None
    has_ended = log.event == events.RL_STRAGGLER_END.name
    until = int_or_none(get(names.RL_LOOP_ITERATION)) if has_ended else None
    return LateRank(
        attempt=log.process.attempt,
        loop=str(get(names.RL_LOOP_NAME) or ""),
        rank=rank,
        host=str(get(names.RL_STRAGGLER_HOST) or ""),
        since=since,
        # The numbers of the steps may have begun again since: then only the first late step is known.
        until=None if until is None else max(since, until),
        lost=lost,
        share=share,
        operation=str(get(names.TORCH_DISTRIBUTED_OPERATION) or ""),
        phase=str(get(names.RL_PHASE) or ""),
        alone=_seconds(get(names.RL_STRAGGLER_ALONE_LOST_TIME), lost),
        all_lost=_seconds(get(names.RL_STRAGGLER_ALL_LOST_TIME), lost),
        beside=_ranks(get(names.RL_STRAGGLER_BESIDE)),
    )


def _ended(line: list[LateRank]) -> list[LateRank]:
    """Return stretches of one rank, each over before the next one begins."""
    begins = sorted({stretch.since for stretch in line})
    following = dict(pairwise(begins))
    return [
        replace(stretch, until=following[stretch.since] - 1, is_end_lost=True)
        if stretch.until is None and stretch.since in following
        else stretch
        for stretch in line
    ]


def _positive(value: Any) -> float | None:
    number = float_or_none(value)
    return number if number is not None and isfinite(number) and number > 0 else None


def _seconds(value: Any, otherwise: float) -> float:
    number = float_or_none(value)
    return number if number is not None and isfinite(number) and number >= 0 else otherwise


def _ranks(value: Any) -> tuple[int, ...]:
    ranks = [int_or_none(rank) for rank in value] if isinstance(value, (list, tuple)) else []
    return tuple(rank for rank in ranks if rank is not None)
