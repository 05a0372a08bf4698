"""Implements the producer API of ``otel_rl/__init__.py``; loaded once telemetry is on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import trace as trace_api
from opentelemetry.context import Context, get_current

from otel_rl.api import awaitables, failure_names, outcomes, program_metrics, scores
from otel_rl.api.model_calls import ModelCall
from otel_rl.api.reward_functions import RewardFunction
from otel_rl.api.rollouts import Rollout
from otel_rl.api.user_messages import say_no_number, say_once
from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.definitions import EventDefinition
from otel_rl.telemetry import (
    deferral,
    drops,
    lifecycle,
    open_trajectory,
)
from otel_rl.telemetry.attribute_values import clean, text
from otel_rl.telemetry.cardinality_budgets import MAXIMUM_LENGTH, OTHER, within_budget
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope
from otel_rl.tools.calls import ToolCall
from otel_rl.training import steps
from otel_rl.training.logged_values import step_number
from otel_rl.training.phases import Phase, innermost
from otel_rl.training.scalars import Source, sink
from otel_rl.training.step_subscribers import StepSubscribers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

    from otel_rl.telemetry.deferral import Moment

_scope = Scope("api")
#: Called with each event of the program, on its thread.
event_listeners: StepSubscribers[Callable[[str, Any, Mapping[str, Any] | None], None]] = StepSubscribers()
_EMPTY = Context()
#: Names that the report and the collector know.
_OUR_NAMES = "rl."
_SPANS_BY_PHASE = {
    definition.type.removeprefix("rl."): definition
    for definition in vars(spans).values()
    if getattr(definition, "type", "").startswith("rl.")
}


class ProducerOperation(Protocol):
    """Something that begins when it is made."""

    def leave(self) -> None:
        """Make current again what was current before; a second call does nothing."""

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """Leave and end it; an exception, or an ``error.type`` as text, marks it as failed. ``at``: when, or now."""


class _UserStep:
    """A step of the user's own loop; silent inside a step that is open already, of an instrumented trainer for one."""

    def __init__(self, iteration: int, loop: str | None = None) -> None:
        inside = loop is None and steps.where().step_of_context is not None
        number = None if inside else _number_of_step(iteration)
        self._step = None if number is None else steps.loop_for_next_step(loop).begin(number, _scope)

    def leave(self) -> None:
        """Do nothing: the step itself does it when it ends."""

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        # Another step of the same loop that began meanwhile has ended ours.
        if self._step is not None and self._step.loop.step is self._step:
            self._step.loop.finish(error, at)


def _number_of_step(iteration: Any) -> int | None:
    """Return the number of a step, and say so where it is none."""
    number = iteration if type(iteration) is int else step_number(iteration)
    if number is None:
        advice = 'number the steps as they follow each other, and name the loop: step(0, loop="warm-up")'
        say_no_number("step", iteration, iteration, advice)
    return number


def _end_left_open(step: steps.Step) -> None:
    """End phases of this thread or task that began in ``step``, which ends: a step has none left where its blocks end.

    A signal handler of the program has raised just after such a phase began, before its block could.
    """
    ended, phase = None, innermost()
    while phase is not None and phase is not ended and phase.step is step and phase.is_exclusive:
        phase.close()
        # One that it had suspended goes on.
        ended, phase = phase, innermost()


steps.contributors.add(_end_left_open)


class _Phase:
    def __init__(self, name: str, *, is_exclusive: bool = True) -> None:
        self._phase = Phase(_SPANS_BY_PHASE[name], _scope, is_exclusive=is_exclusive).start()

    def leave(self) -> None:
        self._phase.leave()

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        if at is None:
            self._phase.close(error)
            return
        # What the phase has suspended goes on in this thread, now: only what enters the SDK waits.
        with deferral.inside_sdk():
            self._phase.close(error, at)


class _Tool:
    def __init__(self, name: str, call_id: str | None, arguments: Any) -> None:
        self._call = ToolCall(_scope, name, call_id, arguments=arguments).start()
        self.leave, self.result, self.end = self._call.leave, self._call.result, self._call.end


class _Span:
    """Work that the program names. Backends and span metrics index names, so a name has a budget."""

    def __init__(self, name: object, values: Mapping[str, Any]) -> None:
        given = text(str(name), MAXIMUM_LENGTH)
        shown = OTHER if given.startswith(_OUR_NAMES) else within_budget(attributes.RL_SPAN_NAME, given)
        if shown != given:
            values = {**values, attributes.RL_SPAN_NAME: given}
        self._trajectory = open_trajectory.current()
        self._span = _scope.start_span(spans.RL_CUSTOM, shown, attributes=values)
        self._token: Token[Context] | None = attach(trace_api.set_span_in_context(self._span))

    def set(self, values: Mapping[str, Any]) -> None:
        if self._span.is_recording():
            self._span.set_attributes(clean(values))

    def leave(self) -> None:
        token, self._token = self._token, None
        detach(token)

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        self.leave()
        if error is not None and self._trajectory is not None:
            self._trajectory.span_errors += 1
        _scope.end_span(self._span, error, at.wall if at else None)


_KINDS: dict[str, Callable[..., ProducerOperation]] = {
    "rollout": Rollout,
    "step": _UserStep,
    "phase": _Phase,
    "tool": _Tool,
    "llm": ModelCall,
    "reward_function": RewardFunction,
    "span": _Span,
}
#: Kinds that are phases of the step.
_PHASES = ("phase", "reward_function")
#: The same, and each call takes part in the estimate of our own cost.
_OPEN = {kind: own_cpu.timed(f"producer.{kind}.begin", begin) for kind, begin in _KINDS.items()}


class Opened:
    """An operation that has begun, and whether it failed; keeps our errors inside at its end.

    With a ``context`` it is one of a generator, and current only between :meth:`enter` and :meth:`leave`. What the
    generator itself makes current stays current in it from piece to piece.
    """

    def __init__(self, operation: ProducerOperation, context: Context = _EMPTY) -> None:
        self._operation = operation
        self._context = context
        self._token: Token[Context] | None = None
        #: What takes the items of a generator, where something does.
        self._produced = getattr(operation, "produced", None)
        self._failure: str | None = None
        self._forks = lifecycle.forks

    def fail(self, kind: str) -> None:
        """Mark it as failed without an exception."""
        with guard("producer.fail"):
            self._failure = failure_names.name_of(kind)

    def tell(self, what: str, given: Mapping[str, Any]) -> None:
        """Hand on what the program says of it; ``what`` is a method of its operation."""
        with guard(f"producer.{what}"):
            getattr(self._operation, what)(**given)

    def produced(self, item: Any) -> None:
        """Record ``item``, which a generator has made."""
        if self._produced is not None:
            with guard("producer.produced"):
                self._produced(item)

    def returned(self, value: Any) -> None:
        """Record ``value``, which a generator has returned."""
        if value is not None and hasattr(self._operation, "result") and not isinstance(self._operation, _Tool):
            self.tell("result", {"value": value})

    def ends_before(self, value: Any) -> bool:
        """Return True for an awaitable, and tell the user: the call ends before the work does."""
        with guard("producer.awaitable"):
            if awaitables.is_awaitable(value):
                awaitables.report_awaitable(value)
                return True
        return False

    @property
    def trajectory(self) -> open_trajectory.OpenTrajectory | None:
        """The trajectory, where it is a rollout."""
        return self._operation.trajectory if isinstance(self._operation, Rollout) else None

    def enter(self) -> None:
        """Make the generator's context current."""
        with guard("producer.enter"):
            self._token = attach(self._context)

    def leave(self) -> None:
        """Remember the generator's context, make the consumer's current again."""
        with guard("producer.leave"):
            self._context = get_current()
            self._restore()

    def _restore(self) -> None:
        token, self._token = self._token, None
        detach(token)

    @own_cpu.estimated("producer.end")
    def close(self, error: BaseException | None) -> None:
        """End it; an exception wins over a failure that was only told.

        A forked child only leaves what its parent has opened: the parent ends it.

        GeneratorExit is no failure: the consumer of a generator has stopped early. It may come from the garbage
        collector, in the middle of anything, so the end is recorded later.
        """
        if self._token is not None:
            with guard("producer.leave"):
                self._restore()
        with guard("producer.close"):
            if self._forks != lifecycle.forks:
                self._operation.leave()
            elif isinstance(error, GeneratorExit) and isinstance(self._operation, _Phase | RewardFunction):
                self._operation.end(self._failure, deferral.now())
            elif isinstance(error, GeneratorExit):
                self._operation.leave()
                deferral.later("traces", partial(self._operation.end, self._failure, deferral.now()))
            else:
                self._operation.end(error if error is not None else self._failure, None)


def open_operation(kind: str, arguments: Mapping[str, Any]) -> Opened | None:
    """Begin a rollout, step, phase or tool call; None when that failed inside."""
    with guard(f"producer.{kind}"):
        return Opened(_OPEN[kind](**arguments))
    return None


def open_detached(kind: str, arguments: Mapping[str, Any]) -> Opened | None:
    """Begin an operation without making it current; None when that failed inside.

    A phase suspends none here: between two pieces of its generator, the consumer's phase goes on.
    """
    with guard(f"producer.{kind}"):
        given = {**arguments, "is_exclusive": False} if kind in _PHASES else arguments
        operation = _OPEN[kind](**given)
        context = get_current()
        # Left here and not at its end: the consumer may have made something of its own current until then.
        with guard("producer.leave"):
            operation.leave()
        return Opened(operation, context)
    return None


#: See :func:`otel_rl.reward`.
reward = scores.reward
#: See the functions of these names there.
count, observe, gauge = program_metrics.count, program_metrics.observe, program_metrics.gauge
rollout_metric = program_metrics.rollout_metric
#: What the program says of a rollout, by the names of its methods.
judge = outcomes.judge


@own_cpu.estimated("producer.metric")
def metric(key: str, value: Any, step: Any = None) -> None:
    """See :func:`otel_rl.metric`."""
    with guard("producer.metric"):
        if value is None:
            # There is none yet.
            return
        here = steps.where()
        own, iteration, is_named = here.certain_step, here.iteration, False
        if step is not None:
            iteration = step_number(step)
            if iteration is None:
                _say_no_step(key, step)
                return
            is_named = own is None or own.iteration != iteration
        if is_named:
            own = None
        if not sink.measure(_scope, Source.PRODUCER, iteration, key, value, own, here.loop, is_named=is_named):
            say_no_number("the value of", key, value)


def _say_no_step(key: object, step: object) -> None:
    drops.count("metrics", "unsupported_type")
    kind, name = type(step).__qualname__, text(str(key), 64)
    say_once(
        "the step of",
        f'the step of "{name}" is no whole number of 64 bit ({kind}), and its value is not recorded: give the number of'
        " the step, or leave it out for the open one",
    )


def trace_id() -> str | None:
    """See :func:`otel_rl.trace_id`."""
    with guard("producer.trace_id"):
        own = trace_api.get_current_span().get_span_context()
        step = steps.where().step
        if not own.is_valid and step is not None:
            own = step.span_context
        return trace_api.format_trace_id(own.trace_id) if own.is_valid else None
    return None


@own_cpu.estimated("producer.event")
def event(name: str, body: Any, values: Mapping[str, Any] | None) -> None:
    """See :func:`otel_rl.event`."""
    with guard("producer.event"):
        _scope.event(EventDefinition(name, "", ()), body=body, attributes=values)
        for listener in tuple(event_listeners.callbacks):
            listener(name, body, values)
