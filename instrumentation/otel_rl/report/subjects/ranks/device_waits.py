"""The time of each rank's device in the collectives of NCCL, from the events of :mod:`otel_rl.collectives`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from otel_rl.ranks.model.collectives import Collective
from otel_rl.ranks.model.groups import group_of
from otel_rl.ranks.stragglers.last_arrivals import LastArrivals
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import TorchDistributedTimingValues as Timing
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log

_NS = 1e9
_COLUMNS = (
    names.TORCH_DISTRIBUTED_COLLECTIVE_GROUP,
    names.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER,
    names.TORCH_DISTRIBUTED_COLLECTIVE_OPERATION,
    names.TORCH_DISTRIBUTED_COLLECTIVE_DURATION,
    names.TORCH_DISTRIBUTED_COLLECTIVE_CREATED,
)
#: Attempts that are told apart, and processes whose rows are counted.
_MOST_ATTEMPTS, _MOST_PROCESSES = 64, 4096
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
    #: Process -> seconds of it in which the rows lie.
    covered: dict[str, float] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """True where a rank's collectives are timed."""
        return Timing.ON in self.states

    def share(self, waited: float) -> float | None:
        """Return the share of the ranks' time that they waited at most.

        ``waited`` are the seconds of one rank in the compared collectives. Of the others as much is assumed.
        """
        covered = sum(self.covered.values())
        if not self.arrivals.compared or covered <= 0:
            return None
        return min(waited / self.arrivals.compared * self.rows / covered, 1.0)


class DeviceWaits:
    """Collects them by attempt."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[int, ...], AttemptWaits] = {}

    def add_log(self, log: Log) -> None:
        """Take in an event of a rank's collectives; others are ignored."""
        if log.event != events.TORCH_DISTRIBUTED_COLLECTIVES.name:
            return
        attempt = log.process.attempt
        if attempt not in self._attempts and len(self._attempts) >= _MOST_ATTEMPTS:
            return
        waits = self._attempts.setdefault(attempt, AttemptWaits())
        waits.states.add(str(log.attributes.get(names.TORCH_DISTRIBUTED_TIMING)))
        waits.left_out += max(int_or_none(log.attributes.get(names.TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT)) or 0, 0)
        rank, body = log.process.rank, log.body
        if rank is None or not isinstance(body, dict):
            return
        first, last = 0, 0
        for collective, operation, seconds, created in _rows(body):
            waits.rows += 1
            waits.arrivals.add(collective, operation, rank, seconds)
            first, last = min(first or created, created), max(last, created)
        key = log.process.key
        if key in waits.covered or len(waits.covered) < _MOST_PROCESSES:
            waits.covered[key] = waits.covered.get(key, 0.0) + (last - first) / _NS

    def latest(self, superseded: frozenset[tuple[int, ...]]) -> AttemptWaits | None:
        """Return those of the latest attempt that counts; None where NCCL was not used."""
        known = [attempt for attempt in self._attempts if attempt not in superseded]
        return self._attempts[max(known)] if known else None


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
