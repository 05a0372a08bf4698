"""Summaries of bounded size: what the report keeps instead of the records themselves."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from otel_rl.store.tables.run import BUCKETS_PER_DOUBLING, NEGATIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
#: Differences up to this share of a value are those of rounding: sums of 32 bits, and of several ranks, differ by them.
_ROUNDING = 1e-6


@dataclass(slots=True)
class Cell:
    """Count, sum, smallest and largest of some values."""

    count: int = 0
    total: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    def add(self, value: float) -> None:
        """Add one value."""
        self.count += 1
        self.total += value
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)

    def merge(self, other: Cell) -> None:
        """Add all values of ``other``."""
        self.count += other.count
        self.total += other.total
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)

    @property
    def mean(self) -> float:
        """Mean, NaN when empty."""
        return self.total / self.count if self.count else math.nan


def _bounds(bucket: int) -> tuple[float, float]:
    if bucket > NEGATIVE // 2:
        low, high = _bounds(bucket - NEGATIVE)
        return -high, -low
    return 2 ** (bucket / BUCKETS_PER_DOUBLING), 2 ** ((bucket + 1) / BUCKETS_PER_DOUBLING)


@dataclass(slots=True)
class Spread:
    """A distribution: exact count, sum and range, quantiles to within a bucket."""

    cell: Cell = field(default_factory=Cell)
    buckets: dict[tuple[float, float], int] = field(default_factory=dict)
    #: Smallest and largest value in a bucket, where the values themselves were seen.
    _seen: dict[tuple[float, float], tuple[float, float]] = field(default_factory=dict)

    def add(self, value: float) -> None:
        """Add one value."""
        if not math.isfinite(value):
            return
        self.cell.add(value)
        bounds = value, value
        if value > 0:
            bounds = _bounds(math.floor(math.log2(value) * BUCKETS_PER_DOUBLING))
        self.buckets[bounds] = self.buckets.get(bounds, 0) + 1
        self._see(bounds, value, value)

    def add_bucket(self, number: int | None, cell: Cell) -> None:
        """Add values of a bucket of :func:`~otel_rl.store.tables.run.bucket`; None is that of zero."""
        self.cell.merge(cell)
        bounds = (0.0, 0.0) if number is None else _bounds(number)
        self.buckets[bounds] = self.buckets.get(bounds, 0) + cell.count
        self._see(bounds, cell.minimum, cell.maximum)

    def merge(self, other: Spread) -> None:
        """Add all values of ``other``."""
        self.cell.merge(other.cell)
        for bounds, number in other.buckets.items():
            self.buckets[bounds] = self.buckets.get(bounds, 0) + number
            # Of a bucket that a histogram has counted, any value between its bounds may be there.
            self._see(bounds, *other._seen.get(bounds, bounds))

    def _see(self, bounds: tuple[float, float], least: float, most: float) -> None:
        low, high = self._seen.get(bounds, (least, most))
        self._seen[bounds] = min(low, least), max(high, most)

    def quantile(self, share: float) -> float:
        """Return the value below which ``share`` (0 to 1) of the values lie; NaN when no bucket is known."""
        bucket = self._bucket(share)
        return math.nan if bucket is None else self._within(*self._seen.get(bucket[0], bucket[0]), bucket[1])

    def bound(self, share: float) -> float | None:
        """Return the upper bound of a quantile in the first bucket of a histogram, of which no more is known."""
        bucket = self._bucket(share)
        if bucket is None or self.cell.minimum == self.cell.maximum:
            return None
        low, high = bucket[0]
        return high if low == -math.inf and math.isfinite(high) else None

    def _bucket(self, share: float) -> tuple[tuple[float, float], float] | None:
        """Return the bucket in which a quantile is, and how far in it."""
        entries = sorted((item for item in self.buckets.items() if item[1] > 0), key=lambda item: (item[0][1], item[0]))
        wanted = share * sum(number for _, number in entries)
        seen = 0
        for bounds, number in entries:
            if seen + number >= wanted:
                return bounds, (wanted - seen) / number
            seen += number
        return None

    def _within(self, low: float, high: float, share: float) -> float:
        low, high = max(low, self.cell.minimum), min(high, self.cell.maximum)
        if math.isfinite(low) and math.isfinite(high):
            return low + (high - low) * share
        return low if math.isfinite(low) else high


def spreads(rows: Iterable[Sequence[Any]]) -> dict[tuple[Any, ...], Spread]:
    """Return distributions by key of rows: key, bucket, number, sum, smallest and largest of the values in it."""
    found: dict[tuple[Any, ...], Spread] = {}
    for row in rows:
        bucket, *values = row[-5:]
        found.setdefault(tuple(row[:-5]), Spread()).add_bucket(bucket, Cell(*values))
    return found


class Largest(Generic[T]):
    """The ``limit`` items with the largest measure."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()

    def add(self, measure: float, item: T) -> None:
        """Offer ``item``; it is kept while it is among the largest."""
        entry = (measure, next(self._order), item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def items(self) -> list[T]:
        """Return kept items, largest first."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: (-entry[0], entry[1]))]


class EveryNth(Generic[T]):
    """Items from all parts of the run: every so many, and more seldom the longer the run is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._every = 1
        self._seen = 0
        self._kept: list[tuple[int, T]] = []

    def add(self, item: T) -> None:
        """Take it into account; at most ``limit`` are kept."""
        if self._seen % self._every == 0:
            self._kept.append((self._seen, item))
            if len(self._kept) > self._limit:
                self._every *= 2
                self._kept = [kept for kept in self._kept if kept[0] % self._every == 0]
        self._seen += 1

    def items(self) -> list[T]:
        """Return those that are kept, in their order."""
        return [item for _, item in self._kept]


def is_flat(values: Sequence[float]) -> bool:
    """Return whether the values are the same, but for rounding."""
    low, high = min(values), max(values)
    return high - low <= _ROUNDING * max(abs(low), abs(high))
