"""Spans, metric points and log records as the report sees them: OTLP without its JSON wrapping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_rl.store.reader.otlp_values import Attributes
    from otel_rl.store.reader.processes import Process

ERROR_SEVERITY = 17
"""Lowest OpenTelemetry severity number that means an error."""


@dataclass(slots=True)
class SpanEvent:
    """An event inside a span; ``time`` in ns since the epoch."""

    name: str
    time: int
    attributes: Attributes


@dataclass(slots=True)
class Span:
    """One finished span; times in ns since the epoch, ids in lower-case hex, ``""`` where absent."""

    process: Process
    scope: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    attributes: Attributes
    events: list[SpanEvent]
    failed: bool
    message: str
    dropped: int
    #: Of kind SERVER: work that another process has asked for, and may have a span of its own for.
    is_server: bool = False
    #: Trace and span ids of spans that it names beside its parent.
    links: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Duration in s, never negative."""
        return max(self.end - self.start, 0) / 1e9


@dataclass(slots=True)
class Point:
    """One data point of a metric.

    ``kind`` is ``gauge``, ``sum`` or ``histogram``; a ``monotonic`` sum only rises; ``value`` is the number of a gauge
    or sum and the sum of a histogram; ``bounds`` and ``counts`` are the histogram's explicit buckets.
    """

    process: Process
    scope: str
    metric: str
    kind: str
    cumulative: bool
    start: int
    time: int
    value: float
    attributes: Attributes
    count: int = 0
    minimum: float | None = None
    maximum: float | None = None
    bounds: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    monotonic: bool = False


@dataclass(slots=True)
class Log:
    """One log record; ``event`` is its event name, ``time`` in ns since the epoch."""

    process: Process
    scope: str
    event: str
    time: int
    severity: int
    severity_text: str
    body: Any
    attributes: Attributes
    trace_id: str
    span_id: str = ""


Record = Span | Point | Log
