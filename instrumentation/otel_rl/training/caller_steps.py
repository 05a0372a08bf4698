"""The step in which a call of another process was made: its worker has no step of its own.

The call carries it as a short text. Workers of a pool run one call at a time: what begins in it belongs to that step
until the next call begins, whichever process the worker was forked from and when. A Ray actor runs several at once.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import Context, get_current, set_value
from opentelemetry.trace import INVALID_SPAN
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry.context import attach
from otel_rl.training import phases, steps

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import SpanContext

#: What the text is named among the variables that a call carries.
VARIABLE = "OTEL_RL_STEP"
#: First part of a text of this form; a worker with another version of the package ignores others.
_FORM = "1"
_TRACE, _REWARDS, _EVALUATION = "traceparent", "r", "e"
_EVALUATE = spans.RL_EVALUATE.type.removeprefix("rl.")
#: Most characters of a loop's name.
_LONGEST_NAME = 256


class CallerStep(NamedTuple):
    """The step of the caller, as its worker knows it."""

    iteration: int
    #: How often the numbers of its loop had begun again.
    restarts: int
    #: Process id of the caller.
    pid: int
    loop: str | None
    #: False where a trainer logs the rewards of its steps itself.
    has_rewards: bool
    #: The caller was in an evaluation.
    is_evaluation: bool
    #: The trace context of its span, as a header; empty without one.
    trace_parent: str

    @property
    def span_context(self) -> SpanContext:
        """That of the step's span in the caller; may be invalid."""
        context = TraceContextTextMapPropagator().extract({_TRACE: self.trace_parent}, Context())
        return trace_api.get_current_span(context).get_span_context()

    def of_rows(self) -> dict[str, str | int | None]:
        """Return what the record of rollouts that began in it says of it."""
        return {
            attributes.RL_LOOP_NAME: self.loop,
            attributes.RL_TRAJECTORIES_STEP: self.iteration if self.has_rewards else None,
            attributes.RL_TRAJECTORIES_CALLER_PID: self.pid,
            attributes.RL_TRAJECTORIES_RESTARTS: self.restarts or None,
        }

    def text(self) -> str:
        """Return it for another process."""
        flags = (_REWARDS if self.has_rewards else "") + (_EVALUATION if self.is_evaluation else "")
        name = "" if self.loop is None else f"={quote(self.loop[:_LONGEST_NAME], errors='replace')}"
        return ";".join((_FORM, str(self.iteration), str(self.restarts), str(self.pid), flags, self.trace_parent, name))


#: Of the call that this process runs, as the worker of a pool.
_of_call: CallerStep | None = None


class RemoteCall:
    """One call that a Ray actor runs; tasks that it has started see it after its end too."""

    __slots__ = ("is_over", "step", "token")

    def __init__(self, step: CallerStep | None) -> None:
        self.step = step
        self.is_over = False
        self.token: Token[RemoteCall | None] | None = None


#: The call that this thread or task runs, as a Ray actor; the step of the newest one in this process.
_remote_call: ContextVar[RemoteCall | None] = ContextVar("otel_rl_remote_call", default=None)
_newest: CallerStep | None = None
#: Whether what runs here, or is submitted by another thread, belongs to an evaluation without a phase of this process.
made_in_evaluation: ContextVar[bool] = ContextVar("otel_rl_made_in_evaluation", default=False)


def current() -> CallerStep | None:
    """Return the step in which the call of this process was submitted; None outside of steps, and without a call."""
    call = _remote_call.get()
    if call is None or call.step is None:
        return _of_call
    # A loop that a call has left in the background goes on through later steps, which only other calls say.
    return _newest if call.is_over else call.step


def is_evaluation() -> bool:
    """Return whether the caller of this function is in an evaluation: its own, or that of the call that it runs in."""
    phase, caller = phases.innermost(), current()
    is_in_phase = phase is not None and phase.name == _EVALUATE
    return is_in_phase or made_in_evaluation.get() or (caller is not None and caller.is_evaluation)


def message() -> str | None:
    """Return the step that the caller is in, for a call that it submits; None outside of all steps."""
    step = steps.where().step
    if step is None:
        # A call that the worker makes itself.
        caller = current()
        return None if caller is None else caller.text()
    evaluates = is_evaluation()
    texts: dict[bool, str] = vars(step).setdefault("_caller_texts", {})
    if evaluates not in texts:
        texts[evaluates] = _text_of(step, is_evaluation=evaluates)
    return texts[evaluates]


def _text_of(step: steps.Step, *, is_evaluation: bool) -> str:
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace_api.set_span_in_context(_span(step), Context()))
    loop, parent = step.loop, carrier.get(_TRACE, "")
    return CallerStep(
        step.iteration, step.restarts, os.getpid(), loop.name, not loop.logs_rewards, is_evaluation, parent
    ).text()


def _span(step: steps.Step) -> trace_api.Span:
    return trace_api.NonRecordingSpan(step.span_context)


def begin_call(text: str | None) -> None:
    """Leave the step of the call before, or of a fork, for that of ``text``: a call begins in this process."""
    global _of_call
    with guard("caller_steps.begin_call"):
        before, _of_call = _of_call, None if text is None else _read(text)
        phases.leave_those_of_parent()
        context = get_current()
        of_parent = steps.loop_in(context)
        if of_parent is not None:
            context = _without(of_parent, context)
        if of_parent is not None or before is not None:
            for key in (attributes.RL_LOOP_ITERATION, attributes.RL_SAMPLING_PRIORITY):
                context = baggage.remove_baggage(key, context)
        if _of_call is not None:
            context = baggage.set_baggage(attributes.RL_LOOP_ITERATION, str(_of_call.iteration), context)
        if context is not get_current():
            attach(context)


def begin_remote_call(text: str) -> RemoteCall:
    """Enter the step of ``text`` in this thread or task; :func:`end_remote_call` leaves it."""
    global _newest
    call = RemoteCall(_read(text))
    _newest = call.step or _newest
    call.token = _remote_call.set(call)
    return call


def end_remote_call(call: RemoteCall) -> None:
    """Leave the step that :func:`begin_remote_call` has entered, in the same thread or task."""
    call.is_over = True
    if call.token is not None:
        _remote_call.reset(call.token)


def _without(loop: steps.Loop, context: Context) -> Context:
    """Return the context of a forked worker without the step and phase of its parent; a span of the program's stays."""
    span, step = trace_api.get_current_span(context), loop.forked_in
    name = getattr(span, "name", None)
    if name is not None:
        is_ours = str(name).startswith("rl.")
    else:
        # One of ours that is made later has no name, and none has that is not recorded.
        is_ours = step is None or span.get_span_context().trace_id == step.trace_id
    return set_value(steps.LOOP, None, trace_api.set_span_in_context(INVALID_SPAN, context) if is_ours else context)


@lru_cache(maxsize=256)
def _read(text: str) -> CallerStep | None:
    form, *parts = text.split(";")
    if form != _FORM:
        return None
    iteration, restarts, pid, flags, trace_parent, name = parts
    loop = unquote(name[1:]) if name else None
    return CallerStep(
        int(iteration), int(restarts), int(pid), loop, _REWARDS in flags, _EVALUATION in flags, trace_parent
    )
