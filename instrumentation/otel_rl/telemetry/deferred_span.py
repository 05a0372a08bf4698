"""Placeholder for a span that starts where the SDK must not be entered; the real span is made after its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from otel_rl import clock
from otel_rl.telemetry import deferral, ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

    #: Starts the real span: name, context, kind, attributes, links, start time.
    Start = Callable[[str, Context, SpanKind, Mapping[str, Any], Sequence[Link], int], Span]

_generator = ids.IdGenerator()


class DeferredSpan(NonRecordingSpan):
    """Has the ids that the real span will have, so that what begins below it joins its trace."""

    def __init__(
        self,
        start: Start,
        name: str,
        context: Context,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        links: Sequence[Link],
        start_time: int | None,
    ) -> None:
        parent = trace_api.get_current_span(context).get_span_context()
        super().__init__(
            SpanContext(
                parent.trace_id if parent.is_valid else _generator.generate_trace_id(),
                _generator.generate_span_id(),
                is_remote=False,
                trace_flags=parent.trace_flags
                if parent.is_valid
                else TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID),
            )
        )
        self._start = start
        self._name = name
        self._parent_context = context
        self._kind = kind
        self._attributes = dict(attributes)
        self._links = links
        self._start_time = start_time or clock.now()
        self._status: tuple[Any, ...] = ()
        self._events: list[tuple[str, Any, int]] = []
        self._ended = False

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes set so far."""
        return self._attributes

    def is_recording(self) -> bool:
        """True until it ends."""
        return not self._ended

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep for the real span."""
        self._attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Keep for the real span."""
        self._attributes.update(attributes)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Keep for the real span."""
        self._events.append((name, attributes, timestamp or clock.now()))

    def update_name(self, name: str) -> None:
        """Keep for the real span."""
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Keep for the real span."""
        self._status = (status, description)

    def end(self, end_time: int | None = None) -> None:
        """Create the real span as soon as the SDK can be entered."""
        if not self._ended:
            self._ended = True
            end_time = end_time or clock.now()
            deferral.later("traces", lambda: self._record(end_time))

    def _record(self, end_time: int) -> None:
        own = self.get_span_context()
        with ids.pinned(ids.SpanIds(own.trace_id, own.span_id)):
            span = self._start(
                self._name, self._parent_context, self._kind, self._attributes, self._links, self._start_time
            )
        with deferral.inside_sdk():
            for event in self._events:
                span.add_event(*event)
            if self._status:
                span.set_status(*self._status)
            span.end(end_time)
