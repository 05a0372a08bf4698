"""The run span, and the begin and end events of every process that reports.

The span is the child of an inherited ``TRACEPARENT``, and every step trace links to it. Its ids are derived from run id
and attempt, so every rank can link to it although only the leading process emits it, at its end.

``rl.run.start`` comes from ranks and drivers once their identity is final, from other processes with their first
record; ``rl.run.end`` when the process ends in order. A begin without an end means that the process was killed.
The gauge ``rl.run.ended`` of ranks, drivers and the leading process tells the same to rules over metrics.
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, TraceFlags

from otel_rl.core import clock
from otel_rl.core.guard import guard
from otel_rl.process import child_processes, process_identity
from otel_rl.semconv import attributes, events, metrics, spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.semconv.attributes import RlRunEndStatusValues as Status
from otel_rl.telemetry import ids, lifecycle
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.sampling import KEEP
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_rl.semconv.definitions import EventDefinition

_scope = Scope("run")
#: Sampled, and random enough for ratio samplers (hash of a random run id).
SAMPLED = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)

#: Exit status of the interpreter after an uncaught exception.
_FAILED = 1
#: Begin and end of otel-rl's own start-up in ns since the epoch; None where another start-up has loaded it.
start_up: tuple[int, int] | None = None
#: What a process records of itself alone, by signal: at least the span of the run, and that it has begun and ended.
own_records = {"traces": 1, "logs": 2}

#: Gives the body of the end event, and the number of keys that had no room in it; set by what collects them.
result: Callable[[], tuple[Mapping[str, object], int | None]] | None = None

_started = clock.now()
_parent: Context | None = None
_touched = False
_announced = False
_ended = False
_error: BaseException | None = None
#: Exit status after it.
_status: int | None = None
#: Name of the signal that ends the process.
_signal: str | None = None
#: Rank and world size that belong to the process above this one.
_inherited: tuple[int | None, int | None] = (None, None)


def set_parent(context: Context) -> None:
    """Context extracted from the environment at process start (``TRACEPARENT``, ``TRACESTATE``, ``BAGGAGE``)."""
    global _parent
    _parent = context


def fail(error: BaseException, status: int | None = _FAILED) -> None:
    """Note that the program is ending with this uncaught exception, and its exit status where that is known."""
    global _error, _status
    _error, _status = error, status


def stopped_by(signal: str) -> None:
    """Note that the process ends in order because of this signal."""
    global _signal
    _signal = signal


def _expected_ids() -> ids.SpanIds:
    identity = process_identity.current()
    derived = ids.derive(identity.id, identity.attempt, "run")
    inherited = trace_api.get_current_span(_parent or Context()).get_span_context()
    return ids.SpanIds(inherited.trace_id if inherited.is_valid else derived.trace_id, derived.span_id)


def link() -> Link:
    """Link to the run span, whichever process emits it."""
    expected = _expected_ids()
    return Link(SpanContext(expected.trace_id, expected.span_id, is_remote=True, trace_flags=SAMPLED))


def begin() -> None:
    """At start, with the providers in place: ranks and drivers will report, whether they record something or not."""
    global _inherited
    identity = process_identity.current()
    if not identity.numbered:
        _inherited = _place(identity)
    lifecycle.before_shutdown(close)
    _follow_identity()


def touch() -> None:
    """Give the process its span and events, at the first record of any scope."""
    global _touched
    if _touched:
        return
    _touched = True
    lifecycle.before_shutdown(close)
    _follow_identity()


def _follow_identity() -> None:
    process_identity.add_listener(_announce)
    _announce(process_identity.current())


def _announce(identity: process_identity.ProcessIdentity) -> None:
    """Emit the start event once the identity of this process is final; at the end at the latest."""
    if _is_final(identity) and _reports(identity):
        _announce_once()


def may_show() -> bool:
    """Return whether this process shows that it runs: a rank, a driver, or what leads the run, and no other."""
    identity = process_identity.current()
    return not _ended and (identity.leads or _is_rank_or_driver(identity))


def shown_begin() -> tuple[int, Mapping[str, Any]] | None:
    """Return when the process began and the attributes of that event; None of one that others speak for, or too late.

    What records nothing reports only as a rank, a driver, or as what leads the run.
    """
    return None if _announced or not may_show() else (_started, _attributes())


def _announce_once() -> None:
    global _announced
    if not _announced:
        _announced = True
        emit(events.RL_RUN_START, _started)
        _scope.observe(metrics.RL_RUN_ENDED, _observe_end)


def _observe_end() -> Iterator[tuple[float, Mapping[str, str]]]:
    """Say whether this process has ended; a child of a rank has the rank's number, and must not speak for it."""
    identity = process_identity.current()
    if identity.leads or _is_rank_or_driver(identity):
        yield int(_ended), {attributes.RL_RUN_END_STATUS: how_it_ended()} if _ended else {}


def how_it_ended() -> str:
    """Return how the process ends, as far as is known by now."""
    if _signal is not None or isinstance(_error, KeyboardInterrupt):
        return Status.STOPPED
    return Status.COMPLETED if _error is None else Status.FAILED


def _is_final(identity: process_identity.ProcessIdentity) -> bool:
    """Return whether the identity is final: a worker may become a rank until its first export, not hastened here."""
    if identity.leads or _is_rank_or_driver(identity):
        return process_identity.settled()
    return process_identity.frozen()


def _reports(identity: process_identity.ProcessIdentity) -> bool:
    """Return whether it is a rank or driver, or has recorded something."""
    if child_processes.is_data_loader_worker():
        return False
    return _touched or _is_rank_or_driver(identity)


def _is_rank_or_driver(identity: process_identity.ProcessIdentity) -> bool:
    is_rank = identity.rank is not None and (identity.numbered or _place(identity) != _inherited)
    return is_rank or identity.role == RlRoleValues.DRIVER


def _place(identity: process_identity.ProcessIdentity) -> tuple[int | None, int | None]:
    return identity.rank, identity.world_size


def close() -> None:
    """Emit the end event of this process, and the run span where it leads."""
    global _ended
    identity = process_identity.current()
    # The first record of a process may be its own begin event, made here: that registers this function again.
    if _ended or not _reports(identity):
        return
    _ended = True
    _announce_once()
    outcome: dict[str, object] = {
        attributes.RL_RUN_END_STATUS: how_it_ended(),
        attributes.ERROR_TYPE: None if _error is None else error_type(_error),
        attributes.RL_RUN_END_SIGNAL: _signal,
    }
    # Ctrl-C is how a server is stopped, and ends by its signal.
    is_interrupted = isinstance(_error, KeyboardInterrupt)
    if _error is not None and not is_interrupted:
        outcome[attributes.PROCESS_EXIT_CODE] = _status
    body: Mapping[str, object] | None = None
    if result is not None:
        with guard("run_span.result"):
            body, outcome[attributes.RL_RUN_RESULT_LEFT_OUT] = result()
    if not identity.leads:
        emit(events.RL_RUN_END, clock.now(), outcome, body)
        return
    with ids.pinned(_expected_ids()):
        span = _scope.start_span(
            spans.RL_RUN,
            attributes={**_attributes(), attributes.RL_SAMPLING_PRIORITY: KEEP},
            context=_parent or Context(),
            start_time=_started,
        )
    # Nothing is imported at the end: what has parts has loaded it.
    run_parts = sys.modules.get("otel_rl.telemetry.run_parts")
    if run_parts is not None:
        with guard("run_span.parts"):
            run_parts.report(at_end=True)
            outcome.update(run_parts.facts())
    emit(events.RL_RUN_END, clock.now(), outcome, body)
    _scope.end_span(span, None if is_interrupted else _error)


def _attributes() -> dict[str, object]:
    identity = process_identity.current()
    return {attributes.RL_RUN_ID: identity.id, attributes.RL_RUN_ATTEMPT: identity.attempt}


def emit(
    event: EventDefinition,
    timestamp: int,
    further: Mapping[str, object] = MappingProxyType({}),
    body: Mapping[str, object] | None = None,
) -> None:
    """Record an event of the run at ``timestamp`` (ns since the epoch) with its ids and ``further`` attributes."""
    context = trace_api.set_span_in_context(trace_api.NonRecordingSpan(link().context))
    _scope.event(event, body=body, attributes={**_attributes(), **further}, context=context, timestamp=timestamp)


def _forget() -> None:
    """Forget the parent's state: a child begins at the fork, and reports it with its first record or rank."""
    global _started, _touched, _announced, _ended, _error, _signal, _inherited
    _started, _error, _signal = clock.now(), None, None
    _touched = _announced = _ended = False
    own_records.update(traces=1, logs=2)
    _inherited = _place(process_identity.current())


lifecycle.at_first_record(touch)
lifecycle.after_fork_in_child(_forget)
