"""The calls that a worker executes: in their caller's context, as spans, delivered before their result is stored."""

from __future__ import annotations

import asyncio
import functools
import inspect
import queue
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, get_current_span, set_span_in_context

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.instrumentors.ray import workers
from otel_rl.instrumentors.ray.calls import CARRIER, STEP
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, attribute_values, deferral, lifecycle, propagation, run_span
from otel_rl.telemetry.context import attach, detach
from otel_rl.training import caller_steps, logged_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from contextvars import Token

    from opentelemetry.trace import Span

    from otel_rl.telemetry.lifecycle import Delivery

    Function = Callable[..., Any]

scope = Scope("ray")
_SITE = guard("ray.execution")
#: Seconds that a call takes at least that has a span: one with a caller, and one without.
_SHORTEST, _SHORTEST_ALONE = 0.001, 1.0
_NOWHERE = Context()
#: Seconds between two looks at a delivery that a coroutine waits for.
_LOOK = 0.002


class _Switch:
    """Workers keep the functions that they execute: what is wrapped stays so."""

    on = False

    def off(self) -> None:
        """Follow no further call."""
        self.on = False


switch = _Switch()


def following(original: Function) -> Function:
    """Return ``FunctionActorManager.get_execution_info`` with functions that are followed."""

    @functools.wraps(original)
    def get_execution_info(self: Any, job_id: Any, function_descriptor: Any) -> Any:
        info = original(self, job_id, function_descriptor)
        try:
            return _followed(info, function_descriptor)
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)
        return info

    return get_execution_info


def _followed(info: Any, descriptor: Any) -> Any:
    function = info.function
    # Of a task that is the function itself, of a method what calls it.
    target = getattr(function, "method", function)
    name = descriptor.function_name
    is_generator = inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)
    if is_generator or name.startswith("__ray") or inspect.iscoroutinefunction(function):
        return info
    worker = descriptor.class_name.rpartition(".")[2]
    what = f"{worker}.{name}" if worker else name
    executor = _asynchronous if inspect.iscoroutinefunction(target) else _synchronous
    return info._replace(function=functools.wraps(function)(executor(function, what, worker)))


def _synchronous(function: Function, what: str, worker: str) -> Function:
    def executor(*args: Any, **kwargs: Any) -> Any:
        call = _begin(what, worker, kwargs)
        if call is None:
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            call.error = error
            raise
        finally:
            deliveries = _end(call)
            # Ray runs plain methods of an asynchronous actor on its event loop, which may not wait.
            if asyncio._get_running_loop() is None:  # noqa: SLF001 - the public one raises
                for delivery in deliveries:
                    delivery.wait()

    return executor


def _asynchronous(function: Function, what: str, worker: str) -> Function:
    def executor(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return _awaiting(result, what, worker, kwargs) if switch.on and inspect.iscoroutine(result) else result

    return executor


async def _awaiting(coroutine: Coroutine[Any, Any, Any], what: str, worker: str, kwargs: Mapping[str, Any]) -> Any:
    call = _begin(what, worker, kwargs)
    if call is None:
        return await coroutine
    try:
        result = await coroutine
    except BaseException as error:
        call.error = error
        _end(call)
        raise
    deliveries = _end(call)
    # The result is there: who cancels the call now comes too late.
    with suppress(asyncio.CancelledError):
        while not all(delivery.is_over for delivery in deliveries):  # noqa: ASYNC110 - a thread ends them
            await asyncio.sleep(_LOOK)
    return result


@functools.lru_cache(maxsize=256)
def _context_of(carrier: tuple[tuple[str, str], ...]) -> Context:
    """Return the caller's context; calls of one step or rollout have the same."""
    return propagation.extract(dict(carrier))


class _ExecutedCall:
    """One call that runs in this worker."""

    #: How many run now.
    running = 0

    def __init__(self, what: str, carrier: Mapping[str, str]) -> None:
        _ExecutedCall.running += 1
        self.what = what
        self.error: BaseException | None = None
        self.began = deferral.now()
        self._step: caller_steps.RemoteCall | None = None
        self._token: Token[Context] | None = None
        self.span: Span = INVALID_SPAN
        context = _context_of(tuple(carrier.items())) if carrier else _NOWHERE
        if STEP in carrier:
            self._step = caller_steps.begin_remote_call(carrier[STEP])
        if get_current_span(context).get_span_context().is_valid:
            values = {attributes.CODE_FUNCTION_NAME: what}
            self.span = scope.start_posted_span(spans.RL_WORKER_CALL, values, context, start_time=self.began.wall)
            self.span.update_name(what)
            self._token = attach(set_span_in_context(self.span, context))

    def end(self) -> float:
        """Record the call, unless it is too short for a span; return its seconds, 0 where others run on."""
        _ExecutedCall.running -= 1
        now = deferral.now()
        detach(self._token)
        if self._step is not None:
            caller_steps.end_remote_call(self._step)
        kind = None if self.error is None or _is_no_failure(self.error) else attribute_values.error_type(self.error)
        self.error = None
        seconds = now.counter - self.began.counter
        if self.span is not INVALID_SPAN:
            if seconds >= _SHORTEST or kind is not None:
                scope.end_span(self.span, kind, now.wall)
        elif seconds >= _SHORTEST_ALONE or (kind is not None and _admits_failure()):
            deferral.post(Signal.TRACES, partial(_record_alone, self.what, self.began.wall, now.wall, kind))
        _record_soon(self.what, kind, seconds)
        return 0.0 if _ExecutedCall.running > 0 else seconds


#: What tells a caller that a queue has nothing, or no room, or that it has cancelled the call.
_ANSWERS = (queue.Empty, queue.Full, asyncio.QueueEmpty, asyncio.QueueFull, asyncio.CancelledError, KeyboardInterrupt)


#: How many more calls outside of steps that failed at once have a span.
_failures_left = 100


def _admits_failure() -> bool:
    global _failures_left
    _failures_left -= 1
    return _failures_left >= 0


def _is_no_failure(error: BaseException) -> bool:
    return isinstance(error, _ANSWERS)


#: Function, error and seconds of calls that have ended; whether their recording is already scheduled.
_ended: deque[tuple[str, str | None, float]] = deque()
_posted = False


def _record_soon(what: str, error: str | None, seconds: float) -> None:
    """Have the durations of all calls until the next export recorded together: a worker may run thousands a second."""
    global _posted
    _ended.append((what, error, seconds))
    if not _posted:
        _posted = deferral.post(Signal.METRICS, _record_durations)


def _record_durations() -> None:
    global _posted
    # First: what comes from here on is posted anew.
    _posted = False
    by_call: dict[tuple[str, str | None], list[float]] = {}
    with suppress(IndexError):  # until it is empty; another thread may take some too
        while True:
            what, error, seconds = _ended.popleft()
            by_call.setdefault((what, error), []).append(seconds)
    for (what, error), durations in by_call.items():
        labels = {attributes.CODE_FUNCTION_NAME: what, attributes.ERROR_TYPE: error}
        scope.record_all(metrics.RL_WORKER_CALL_DURATION, durations, labels)


def _record_alone(what: str, began: int, ended: int, error: str | None) -> None:
    values, links = {attributes.CODE_FUNCTION_NAME: what}, [run_span.link()]
    span = scope.start_span(
        spans.RL_WORKER_CALL, what, attributes=values, context=_NOWHERE, links=links, start_time=began
    )
    scope.end_span(span, error, ended)


def _begin_call(what: str, worker: str, kwargs: Mapping[str, Any]) -> _ExecutedCall | None:
    if not scope.enabled:
        return None
    workers.identify(worker)
    return _ExecutedCall(what, kwargs.get(CARRIER) or {})


def _end_call(call: _ExecutedCall) -> Sequence[Delivery]:
    seconds = call.end()
    logged_steps.call_ended()
    return lifecycle.deliver_news(seconds)


_begin_timed, _end_timed = own_cpu.timed("ray.begin", _begin_call), own_cpu.timed("ray.end", _end_call)


def _begin(what: str, worker: str, kwargs: Mapping[str, Any]) -> _ExecutedCall | None:
    if switch.on:
        with _SITE:
            return _begin_timed(what, worker, kwargs)
    return None


def _end(call: _ExecutedCall) -> Sequence[Delivery]:
    with _SITE:
        return _end_timed(call)
    return ()
