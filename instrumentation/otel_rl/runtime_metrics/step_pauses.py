"""Pauses of a step on its span: seconds of garbage collection and of compilation; an event per recompilation."""

from __future__ import annotations

from opentelemetry.context import Context, create_key, set_value

from otel_rl.runtime_metrics.compilations import Compilation, compilations
from otel_rl.runtime_metrics.garbage import pauses
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

scope = Scope("pressure")
#: Not the present context, in which the next step may have begun; nor an empty one, for which the SDK takes that.
_OUTSIDE = set_value(create_key("otel_rl.outside"), True, Context())
#: Seconds of collections and of compilations when the last step ended; empty before that.
_at_last_end: list[tuple[float, float]] = []


def start(step: steps.Step | None = None) -> None:
    """Follow the steps of this process, from ``step`` on, which has opened."""
    pauses.watch()
    steps.openers.add(_opened)
    steps.contributors.add(_closing)
    lifecycle.after_fork_in_child(_at_last_end.clear)
    if step is not None:
        _opened(step)


def _opened(step: steps.Step) -> None:
    if step.follows and _at_last_end:
        # All since then is its own, though it may be opened later.
        step.paused_before = _at_last_end[0]
        return
    record_recompilations()
    step.paused_before = pauses.total, compilations.seconds


def _closing(step: steps.Step) -> None:
    record_recompilations(step)
    ended = pauses.total, compilations.seconds
    began = step.paused_before or ended
    _at_last_end[:] = [ended]
    if not step.takes_values:
        return
    if pauses.are_timed:
        step.describe({attributes.RL_LOOP_GC_TIME: ended[0] - began[0]})
    if ended[1] > began[1]:
        step.describe({attributes.RL_LOOP_COMPILE_TIME: ended[1] - began[1]})


def record_recompilations(step: steps.Step | None = None) -> None:
    """Record an event for each recompilation since the last time; they belong to ``step``, or to none."""
    for compilation in compilations.look():
        if compilation.is_recompilation:
            _record(compilation, step)


def _record(compilation: Compilation, step: steps.Step | None) -> None:
    values = {
        attributes.RL_COMPILE_FUNCTION: compilation.function,
        attributes.RL_COMPILE_REASON: compilation.reason or None,
        attributes.RL_COMPILE_DURATION: compilation.seconds,
        attributes.RL_LOOP_ITERATION: step.iteration if step else None,
    }
    context = step.context if step else _OUTSIDE
    deferral.post(Signal.LOGS, lambda: scope.event(events.RL_COMPILE_RECOMPILATION, attributes=values, context=context))
