"""Where in a training the caller is: the open step, and whether the current context belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.semconv import attributes as names
from otel_rl.training import steps

if TYPE_CHECKING:
    from opentelemetry.context import Context


def place() -> tuple[steps.Step | None, Context, bool]:
    """Return the open step, the context in which a phase of it begins, and whether that is the step's own trace.

    A rollout is a trace of its own: its phases are no part of the step's time.
    """
    context = get_current()
    loop = context.get(steps.LOOP)
    step = loop.step if isinstance(loop, steps.Loop) else None
    if step is not None and context is step.context:
        return step, context, True
    trace_id = trace_api.get_current_span(context).get_span_context().trace_id
    if step is not None:
        if step.trace_id == trace_id:
            return step, context, True
        # Begun in another thread or task since: this context still has an earlier step of the loop.
        stale = baggage.get_baggage(names.RL_LOOP_ITERATION, context) != str(step.iteration)
        if stale and baggage.get_baggage(names.RL_ROLLOUT_ID, context) is None:
            return step, step.context, True
        return step, context, False
    step = steps.where().step
    if step is not None and not trace_id:
        return step, step.context, True
    return step, context, False
