"""Which rollouts of a step have spans, beside their rows: the step that counts them, and what is worth sending."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.trace import get_current_span

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlRolloutStatusValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, held_traces, sampling
from otel_rl.telemetry.correlation import baggage_context
from otel_rl.training import steps, trajectory_rows

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.telemetry.held_traces import HeldTrace
    from otel_rl.training.trajectory_rows import Ended


def began(span: Span, iteration: object) -> HeldTrace | None:
    """Count a rollout of an iteration, or of the current minute; what it returns is for :func:`ended`."""
    if iteration is None:
        window = ("minute", int(time.monotonic() // held_traces.WINDOW_SECONDS))
        return held_traces.begin(span, window, ends_with_step=False, allowance=held_traces.outside_of_steps)
    step = steps.where().step
    is_here = step is not None and step.is_open and step.iteration == iteration
    return held_traces.begin(span, iteration, ends_with_step=is_here)


def marked(span: Span, context: Context) -> Context:
    """Mark the root of a rollout whose spans are held, and return ``context`` with that mark for the spans inside.

    What leaves of such rollouts is no fair sample: the slowest and the failed ones.
    """
    span.set_attribute(attributes.RL_SAMPLING_BEYOND_LIMIT, 1)
    return baggage_context({attributes.RL_SAMPLING_BEYOND_LIMIT: 1}, context)


def ended(held: HeldTrace, trajectory: Ended | None, *, is_forced: bool) -> None:
    """Tell how a rollout ended, after its span has: whether that is sent is decided now, or at the end of the step."""
    if trajectory is None:
        held_traces.end(held, 0.0, is_kept=True, is_suspect=None)  # it has no row
        return
    counters, has_error = trajectory.trajectory, trajectory.error is not None
    status = trajectory_rows.status_of(trajectory.error, None)
    may_be_suspect = has_error or counters.has_failures
    held_traces.end(
        held,
        trajectory.seconds,
        is_kept=is_forced or status == RlRolloutStatusValues.FAILED,
        is_suspect=partial(trajectory_rows.is_suspect, counters, failed=has_error) if may_be_suspect else None,
    )


def leaves_event_to_row(context: Context | None) -> bool:
    """Return, and count, whether the event of a score says nothing that the row of its rollout does not.

    So it is of a rollout whose spans are held: thousands of events would take the room of the rows in the store.
    """
    if sampling.hold is None or not held_traces.has(get_current_span(context).get_span_context().trace_id):
        return False
    drops.count(Signal.LOGS, sampling.ROLLOUT_SPANS)
    return True


def _step_ended(step: steps.Step, *_: object) -> None:
    held_traces.close(step.iteration)


# After that of the rows: late scores decide what is suspect until these are made.
steps.listeners.add(_step_ended)
