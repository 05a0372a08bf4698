"""The time of each rank's device in the collectives of NCCL, from the events of :mod:`otel_rl.collectives`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from otel_rl.ranks.model.collectives import Collective
from otel_rl.ranks.model.groups import group_of
from otel_rl.ranks.stragglers.last_arrivals import LastArrivals
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.loops import written
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import TorchDistributedTimingValues as Timing
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log

_NS = 1e9
_COLUMNS = (
    names.TORCH_DISTRIBUTED_COLLECTIVE_GROUP,
    names.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER,
    names.TORCH_DISTRIBUTED_COLLECTIVE_OPERATION,
    names.TORCH_DISTRIBUTED_COLLECTIVE_DURATION,
    names.TORCH_DISTRIBUTED_COLLECTIVE_CREATED,
)
_LATEST = "SELECT attempt FROM events WHERE name = ? ORDER BY start DESC LIMIT 1"
#: Characters of a group or operation.
_LONGEST = 512


@dataclass
class AttemptWaits:
    """The collectives of one attempt."""

    arrivals: LastArrivals = field(default_factory=LastArrivals)
    #: What the ranks said of the timing.
    states: set[str] = field(default_factory=set)
    rows: int = 0
    left_out: int = 0
    #: Seconds of all ranks in which the rows lie.
    covered: float = 0.0

    @property
    def is_timed(self) -> bool:
        """True where a rank's collectives are timed."""
        return Timing.ON in self.states

    def add(self, log: Log) -> None:
        """Take in an event of a rank's collectives."""
        self.states.add(str(log.attributes.get(names.TORCH_DISTRIBUTED_TIMING)))
        self.left_out += max(int_or_none(log.attributes.get(names.TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT)) or 0, 0)
        rank, body = log.process.rank, log.body
        if rank is None or not isinstance(body, dict):
            return
        first, last = 0, 0
        for collective, operation, seconds, created in _rows(body):
            self.rows += 1
            self.arrivals.add(collective, operation, rank, seconds)
            first, last = min(first or created, created), max(last, created)
        self.covered += (last - first) / _NS

    def share(self, waited: float) -> float | None:
        """Return the share of the ranks' time that they waited at most.

        ``waited`` are the seconds of one rank in the compared collectives. Of the others as much is assumed.
        """
        if not self.arrivals.compared or self.covered <= 0:
            return None
        return min(waited / self.arrivals.compared * self.rows / self.covered, 1.0)


@asked_once
def latest(collected: Collected) -> AttemptWaits | None:
    """Return those of the latest attempt that counts; None where NCCL was not used."""
    name = events.TORCH_DISTRIBUTED_COLLECTIVES.name
    attempt = collected.tables.value(_LATEST, name)
    if attempt is None:
        return None
    waits = AttemptWaits()
    for log in collected.tables.events(name):
        if written(log.process.attempt) == attempt:
            waits.add(log)
    return waits


def _rows(body: dict[str, Any]) -> Iterator[tuple[Collective, str, float, int]]:
    """Return collective, operation, seconds and moment of each row that makes sense."""
    groups = [group_of(str(text)[:_LONGEST]) for text in _list(body, names.TORCH_DISTRIBUTED_GROUPS)]
    for place, number, operation, seconds, created in zip(*(_list(body, name) for name in _COLUMNS), strict=False):
        if not (_is_number(place) and place < len(groups) and _is_number(number) and _is_number(created)):
            continue
        time = float_or_none(seconds)
        if time is not None and isfinite(time) and time >= 0:
            yield Collective(groups[place], number, is_numbered_by_torch=True), str(operation)[:_LONGEST], time, created


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _list(body: dict[str, Any], key: str) -> list[Any]:
    value = body.get(key)
    return value if isinstance(value, list) else []
