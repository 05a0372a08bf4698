"""Placeholder for a span whose real one is made after its end.

For spans that start where the SDK must not be entered, and for those that are left to an I/O thread. It is the current
span of the program: like one of the SDK it takes values as they are at the call, is bounded, and takes nothing once
its end is recorded. Unlike those it raises nothing.
"""

from __future__ import annotations

import traceback
from collections import deque
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

from otel_rl.core import clock
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes as names
from otel_rl.telemetry import attribute_values, deferral, drops, ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode

    #: Starts the real span: name, context, kind, attributes, links, start time.
    Start = Callable[[str, Context, SpanKind, Mapping[str, Any], Sequence[Link], int], Span]

#: Most events and links that are kept, the newest ones. The provider may have lower limits for the real span.
MAXIMUM_EVENTS = 1024

_generator = ids.IdGenerator()
_site = guard("deferred_span.set")


def below(parent: SpanContext) -> SpanContext:
    """Return the ids of a span below ``parent``; of a root where there is no parent."""
    if parent.is_valid:
        return SpanContext(
            parent.trace_id, _generator.generate_span_id(), False, parent.trace_flags, parent.trace_state
        )
    flags = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)
    return SpanContext(_generator.generate_trace_id(), _generator.generate_span_id(), False, flags)


def _message(exception: BaseException) -> str:
    try:
        return str(exception)
    except Exception:  # noqa: BLE001 - code of the program runs here
        return "<exception str() failed>"


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
        own: SpanContext | None = None,
        leave: Callable[[str, Callable[[], None]], object] = deferral.later,
    ) -> None:
        """``own`` is derived from the parent unless given; ``leave`` is given what makes the real span."""
        super().__init__(below(trace_api.get_current_span(context).get_span_context()) if own is None else own)
        self._leave = leave
        self._start = start
        self._name = name
        self._parent_context = context
        self._kind = kind
        self._attributes: dict[str, Any] = attribute_values.clean(attributes)
        self._links = deque(links, MAXIMUM_EVENTS)
        self._start_time = start_time or clock.now()
        self._status: tuple[Any, ...] = ()
        self._events: deque[tuple[str, Any, int]] = deque(maxlen=MAXIMUM_EVENTS)
        self._ended = False

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes set so far."""
        return self._attributes

    def is_recording(self) -> bool:
        """Return whether it has not ended."""
        return not self._ended

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep for the real span."""
        with _site:
            self.set_attributes({key: value})

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Keep for the real span."""
        if self._ended:
            return
        with _site:
            for key, value in attribute_values.clean(attributes).items():
                if key in self._attributes or len(self._attributes) < attribute_values.MAXIMUM_ATTRIBUTES:
                    self._attributes[key] = value
                else:
                    drops.count("traces", "attribute_limit")

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Keep for the real span."""
        if self._ended:
            return
        with _site:
            if len(self._events) == MAXIMUM_EVENTS:
                drops.count("traces", "event_limit")
            self._events.append((name, attribute_values.clean(attributes), timestamp or clock.now()))

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        """Keep for the real span."""
        if self._ended:
            return
        with _site:
            if len(self._links) == MAXIMUM_EVENTS:
                drops.count("traces", "link_limit")
            self._links.append(Link(context, attribute_values.clean(attributes)))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Keep the event that the SDK would make of ``exception``, and not its traceback, which holds the program's."""
        values = {
            names.EXCEPTION_TYPE: attribute_values.error_type(exception),
            names.EXCEPTION_MESSAGE: _message(exception),
            names.EXCEPTION_STACKTRACE: "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**values, **(attributes or {})}, timestamp)

    def update_name(self, name: str) -> None:
        """Keep for the real span."""
        if not self._ended:
            self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Keep for the real span."""
        if not self._ended:
            self._status = (status, description)

    def end(self, end_time: int | None = None) -> None:
        """Create the real span as soon as the SDK can be entered."""
        if not self._ended:
            self._ended = True
            end_time = end_time or clock.now()
            self._leave("traces", lambda: self._record(end_time))

    def _record(self, end_time: int) -> None:
        own = self.get_span_context()
        with ids.pinned(ids.SpanIds(own.trace_id, own.span_id)):
            span = self._start(
                self._name,
                self._parent_context,
                self._kind,
                # Copied in one go: another thread of the program may be setting one.
                self._attributes.copy(),
                list(self._links),
                self._start_time,
            )
        with deferral.inside_sdk():
            for event in list(self._events):
                span.add_event(*event)
            if self._status:
                span.set_status(*self._status)
            span.end(end_time)
