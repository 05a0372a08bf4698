"""What an aggregate may have: methods that take in the records of a run, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from otel_rl.store.reader import Log, Span
    from otel_rl.store.reader.records import Point


@runtime_checkable
class AddsSpans(Protocol):
    """An aggregate that reads spans."""

    def add_span(self, span: Span) -> None:
        """Take in a span; spans of other subjects are ignored."""


@runtime_checkable
class AddsLogs(Protocol):
    """An aggregate that reads log records and events."""

    def add_log(self, log: Log) -> None:
        """Take in a log record; records of other subjects are ignored."""


@runtime_checkable
class AddsPoints(Protocol):
    """An aggregate that reads points one by one; for totals :attr:`~.collected.Subject.metrics` is enough."""

    def add_point(self, point: Point) -> None:
        """Take in a point; points of other subjects are ignored."""


@runtime_checkable
class Closes(Protocol):
    """An aggregate that waits for later records, the end of something for example."""

    def close(self) -> None:
        """Count what still waits: all records have been read."""


@runtime_checkable
class CountsSteps(Protocol):
    """An aggregate with series over the steps of the loop that the page shows."""

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""


@runtime_checkable
class Settles(Protocol):
    """An aggregate that brings records of several files into one order, and of a run that is followed does so once."""

    def settle(self, before: int) -> None:
        """Take it that nothing more comes from before this moment (ns since the epoch)."""
