"""The state of sinks and exporters, and the traces of the run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import get_tracer_provider

from otel_rl.api.user_messages import say_once
from otel_rl.core.guard import guard
from otel_rl.pipeline.processors import foreign_processors
from otel_rl.process import process_identity
from otel_rl.sinks.following import follower
from otel_rl.telemetry import run_span
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.ids import IdGenerator
from otel_rl.training import steps
from otel_rl.training.logged_values import step_number

if TYPE_CHECKING:
    from otel_rl.pipeline.batching import BatchQueue
    from otel_rl.pipeline.metric_reader import LazyMetricReader


def status() -> dict[str, Any]:
    """Return the state of all sinks, of our own exporters and of the program's span processors, as JSON can have it.

    It calls no code of the program and waits for nothing: what a sink reports of itself is from its latest call.

    Returns:
        ``run_id``; ``sinks``, with ``unavailable_since`` in seconds since the epoch for one that hangs; ``exporters``,
        one for each signal and destination, with ``queued`` (in its queue), ``delivered``, ``dropped`` and ``spooled``
        (kept in the run's files for ``otel-rl replay``) in items of the signal, for metrics ``queued`` in collections;
        ``span_processors`` of the program that have been called.
    """
    with guard("sinks.status"):
        # What sets up the process is above this module, and has loaded it if there is anything to report.
        configurator = sys.modules.get("otel_rl.distro.configurator")
        telemetry = None if configurator is None else configurator.telemetry()
        return {
            "run_id": process_identity.current().id,
            "sinks": [queue.status() for queue in tuple(follower.thread.queues.values())],
            "exporters": [] if telemetry is None else [_exporter(part) for part in telemetry.parts],
            "span_processors": [
                dict(vars(known))
                for known in foreign_processors(None if telemetry is None else telemetry.tracer_provider)
            ],
        }
    return {}


def _exporter(part: BatchQueue[Any] | LazyMetricReader) -> dict[str, Any]:
    sink = part.sink
    return {
        "signal": sink.signal,
        "destination": sink.destination.words,
        "enabled": True,
        "available": not (sink.failing or sink.unopened),
        "last_error": sink.reason or sink.loss_reason,
        "queued": part.left,
        "delivered": sink.delivered,
        "dropped": sink.lost + getattr(part, "refused", 0),
        "spooled": sink.kept,
    }


def trace_id(run: str | None = None, step: int | None = None) -> str | None:
    """Return the trace of the run, or of one of its steps, as 32 hexadecimal digits.

    Args:
        run: Run id, by default that of this process; of another one nothing is known here.
        step: Number of a step that has begun, of the loop around the call or the only one of the process. If the
            numbers began anew, those of the present count.

    Returns:
        None, and a line on standard error, where there is no such run or step, or its trace cannot be computed.
    """
    with guard("sinks.trace_id"):
        found = _trace(run, step)
        if isinstance(found, int):
            return f"{found:032x}"
        say_once("sinks.trace_id", f"sinks.trace_id: {found}")
    return None


def _trace(run: str | None, step: int | None) -> int | str:
    """Return the trace, or in words why there is none."""
    who = process_identity.current()
    if who.id is None:
        return "there is no run yet: start the program with opentelemetry-instrument, or call otel_rl.start()"
    if run not in (None, who.id):
        return f'run "{text(str(run), 64)}" is not that of this process, "{who.id}"'
    return run_span.link().context.trace_id if step is None else _trace_of_step(step)


def _trace_of_step(step: int) -> int | str:
    loop, number = steps.where().loop, step_number(step)
    if loop is None or number is None or number > loop.last:
        return f"step {text(str(step), 64)} has not begun in the loop of this call, or the process has several loops"
    if loop.step is not None and loop.step.iteration == number:
        return loop.step.trace_id
    generator = getattr(get_tracer_provider(), "id_generator", None)
    if process_identity.current().steps_key is None or not isinstance(generator, IdGenerator):
        return "steps of this process have random traces: it has no rank, or the program has an id generator of its own"
    return loop.root_ids(number, loop.restarts).trace_id
