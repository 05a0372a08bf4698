"""The run span: child of an inherited ``TRACEPARENT``, the span every step trace links to.

Its ids are derived from run id and attempt, so every rank can link to it although only the leading process emits it.
It begins with the process and is emitted at its end, and only where something else was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, TraceFlags

from otel_rl import clock
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events, spans
from otel_rl.telemetry import ids, lifecycle
from otel_rl.telemetry.sampling import KEEP
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import EventDefinition

_scope = Scope("run")
#: Sampled, and random enough for ratio samplers (hash of a random run id).
SAMPLED = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)

_started = clock.now()
_parent: Context | None = None
_touched = False
_announced = False
_error: BaseException | None = None


def set_parent(context: Context) -> None:
    """Context extracted from the environment at process start (``TRACEPARENT``, ``TRACESTATE``, ``BAGGAGE``)."""
    global _parent
    _parent = context


def fail(error: BaseException) -> None:
    """The program is ending with this uncaught exception."""
    global _error
    _error = error


def _expected_ids() -> ids.SpanIds:
    identity = process_identity.current()
    derived = ids.derive(identity.id, identity.attempt, "run")
    inherited = trace_api.get_current_span(_parent or Context()).get_span_context()
    return ids.SpanIds(inherited.trace_id if inherited.is_valid else derived.trace_id, derived.span_id)


def link() -> Link:
    """Link to the run span, whichever process emits it."""
    expected = _expected_ids()
    return Link(SpanContext(expected.trace_id, expected.span_id, is_remote=True, trace_flags=SAMPLED))


def touch() -> None:
    """Called at the first span of any scope: the run has something to report, so it gets its span and events."""
    global _touched
    if _touched:
        return
    _touched = True
    lifecycle.before_shutdown(close)
    process_identity.add_listener(_announce)
    _announce(process_identity.current())


def _announce(_: process_identity.Run) -> None:
    """Emit the start event once this process is known to lead; at the end at the latest."""
    global _announced
    if not _announced and process_identity.settled() and process_identity.current().leads:
        _announced = True
        _emit(events.RL_RUN_START, _started)


def close() -> None:
    """Emit the run span and its end event; only the leading process does."""
    global _announced
    if not process_identity.current().leads:
        return
    if not _announced:
        _announced = True
        _emit(events.RL_RUN_START, _started)
    with ids.pinned(_expected_ids()):
        span = _scope.start_span(
            spans.RL_RUN,
            attributes={**_attributes(), attributes.RL_SAMPLING_PRIORITY: KEEP},
            context=_parent or Context(),
            start_time=_started,
        )
    _emit(events.RL_RUN_END, clock.now())
    _scope.end_span(span, _error)


def _attributes() -> dict[str, object]:
    identity = process_identity.current()
    return {attributes.RL_RUN_ID: identity.id, attributes.RL_RUN_ATTEMPT: identity.attempt}


def _emit(event: EventDefinition, timestamp: int) -> None:
    context = trace_api.set_span_in_context(trace_api.NonRecordingSpan(link().context))
    _scope.event(event, attributes=_attributes(), context=context, timestamp=timestamp)


lifecycle.at_first_record(touch)
