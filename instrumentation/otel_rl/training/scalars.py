"""Values that a trainer logs: one sink for trainers and trackers.

A log call becomes one event with the exact values. Every finite number in it becomes the gauge ``rl.trainer.metric``,
and the metric of the registry where its key has one. What the program gives value by value, by :func:`otel_rl.metric`,
is one such event per step, when the step has ended.

The same value often comes from several sources: a trainer hands it to a tracker. Two rules keep it single:

* Inside a log call of one source the log calls of others are not recorded: the outermost call wins.
* Each key has one source at each step. When several log it on their own, the first one in :class:`Source` keeps it.
  ``train/loss`` of one and ``loss`` of another are one key where they have the same value.

The program's thread copies what is logged. All else happens on an I/O thread, in the order of the calls.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current, set_value

from otel_rl.core import clock
from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle, run_span
from otel_rl.telemetry.attribute_values import number, text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.telemetry.scope import enabled
from otel_rl.training import labels, steps
from otel_rl.training.key_categories import TRAINER_PREFIX
from otel_rl.training.log_calls import LogCall, OwnValue, SingleValues, Source
from otel_rl.training.logged_values import MAXIMUM_VALUES, Scalar, exact, in_range, plain, taken, without_content
from otel_rl.training.metric_keys import CANONICAL
from otel_rl.training.results import Results
from otel_rl.training.step_subscribers import StepSubscribers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.telemetry import Scope

__all__ = ["ScalarSink", "Source", "is_calling", "not_captured", "sink"]

#: Most keys whose source is remembered; further ones are recorded from every source.
MAXIMUM_KEYS = 4096
#: A source that has not logged a key for this many steps gives it up.
KEPT_FOR_STEPS = 100

#: Marks a context in which no log call is recorded.
_NOT_CAPTURED = object()
#: Whose log call is open in this context, the outermost one; or :data:`_NOT_CAPTURED`.
_calling: ContextVar[object] = ContextVar("otel_rl_log_call", default=None)


@contextmanager
def not_captured() -> Iterator[None]:
    """Record no log call in this block. It goes around those that we make: what we write is not what a program logs."""
    token = _calling.set(_NOT_CAPTURED)
    try:
        yield
    finally:
        _calling.reset(token)


def is_calling() -> bool:
    """Return whether a log call is open in this context, so that those inside it are part of it."""
    return _calling.get() is not None


class ScalarSink:
    """Takes the log calls of all sources in this process; see the module for which of them are recorded."""

    def __init__(self) -> None:
        #: Key -> the source it belongs to, the last step at which that source logged it.
        self._owners: dict[str, tuple[Source, int]] = {}
        #: Key without its prefix -> step, scope and value that were recorded last.
        self._recorded: dict[str, tuple[int, Scope, Scalar]] = {}
        #: Log calls that wait for an I/O thread, oldest first.
        self._calls: deque[LogCall | OwnValue] = deque()
        self._singles: SingleValues | None = None
        #: Key -> the latest number logged under it, not yet measured: the scope, the number, its context.
        self._latest: dict[str, tuple[Scope, float, Context]] = {}
        #: Called with each recorded log call, mostly on an I/O thread.
        self.listeners: StepSubscribers[Callable[[LogCall], None]] = StepSubscribers()
        #: What the process has logged so far.
        self.results = Results()

    def begin_call(self, source: Source) -> Token[object]:
        """Begin a log call of ``source``: until :meth:`end_call`, those of other sources are part of it."""
        outermost = _calling.get()
        return _calling.set(source if outermost is None else outermost)

    def end_call(self, token: Token[object]) -> None:
        """End the call, which has returned."""
        _calling.reset(token)

    def log(
        self,
        scope: Scope,
        source: Source,
        iteration: int | None,
        values: Mapping[Any, Any],
        first: int | None = None,
        *,
        separator: str = "/",
        context: Context | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Record one log call at step ``iteration``; it covers the steps from ``first`` on.

        ``separator`` stands between the keys of a mapping inside of ``values``. ``context`` and ``timestamp``, in ns
        since the epoch, are those of the caller unless given.
        """
        calling = _calling.get()
        if not enabled() or (calling is not None and calling is not source):
            return
        kept = taken(values, separator)
        if source.is_tracker:
            kept = without_content(kept)
        if kept:
            now = timestamp or clock.now()
            call = LogCall(scope, source, iteration, first, kept, context or get_current(), now)
            self._post(Signal.LOGS, call)

    def log_single(
        self,
        scope: Scope,
        source: Source,
        iteration: int | None,
        key: str,
        value: Any,
        loop: steps.Loop | None = None,
    ) -> None:
        """Like :meth:`log`, for a tracker that is given one value at a time: those of a step are recorded together.

        ``loop`` is that of the step where the current context does not hold it.
        """
        if _calling.get() is not None or not enabled():
            return
        kept = value if type(value) is float else plain(value)
        if kept is None:
            return
        if type(kept) is str and source.is_tracker:
            kept = without_content({key: kept}).get(key)
            if kept is None:
                return
        context, singles = get_current(), self._singles
        if singles is None or not singles.is_of(scope, iteration, context):
            of_step = context if loop is None else set_value(steps.LOOP, loop, context)
            call = LogCall(scope, source, iteration, None, {}, of_step, clock.now())
            singles = self._singles = SingleValues(call, context)
        singles.values.append((key if type(key) is str else str(key), kept))
        if not singles.posted:
            singles.posted = True
            if not deferral.post(Signal.LOGS, lambda: self._record_singles(singles)):
                singles.posted = False

    def _post(self, signal: str, call: LogCall | OwnValue) -> None:
        self._calls.append(call)
        if not deferral.post(signal, self._record_next):
            with suppress(ValueError):
                self._calls.remove(call)

    def _record_next(self) -> None:
        # There is none where a fork has taken them away.
        call = self._calls.popleft() if self._calls else None
        if isinstance(call, LogCall):
            self._record_call(call)
        elif call is not None:
            self._note_latest(call.logged, call.logged.values)
            if call.is_told:
                self._tell(call.logged, listeners=call.has_loop)
        # A gauge has one value per export: of several log calls that are recorded together, the last one's.
        if not self._calls:
            self._measure_latest()

    def _record_singles(self, singles: SingleValues) -> None:
        for call in singles.take():
            self._record_call(call)
        self._measure_latest()

    def _record_call(self, call: LogCall) -> None:
        owned = {
            key: value
            for key, value in labels.renamed(call.values).items()
            if self._take(key, call.source, call.iteration or 0) and not self._repeats(key, value, call)
        }
        if not owned:
            return
        body, numbers = exact(owned)
        self._note_latest(call, numbers)
        self.record(call._replace(values=body))

    def _note_latest(self, call: LogCall, numbers: Mapping[str, Any]) -> None:
        for key, value in numbers.items():
            # Taken out first: keys of one metric are measured in the order in which they were logged last.
            self._latest.pop(key, None)
            self._latest[key] = (call.scope, value, call.context)

    def _repeats(self, key: str, value: Scalar, call: LogCall) -> bool:
        """Return whether another library has logged the same value at this step, with or without a prefix."""
        name, step = key.removeprefix(TRAINER_PREFIX), call.iteration or 0
        before = self._recorded.get(name)
        if before is not None and before[0] == step and before[1] is not call.scope and before[2] == value:
            return True
        if before is not None or len(self._recorded) < MAXIMUM_KEYS:
            self._recorded[name] = (step, call.scope, value)
        return False

    def measure(
        self,
        scope: Scope,
        source: Source,
        iteration: int | None,
        key: str,
        value: Any,
        step: steps.Step | None = None,
        loop: steps.Loop | None = None,
        *,
        is_named: bool = False,
    ) -> bool:
        """Record one value as :meth:`log` does; return False where it is no number that can be read.

        Values given in an open ``step`` are one event when it ends, see :func:`_keep`. Those between two steps of a
        ``loop`` that does not say itself where its steps end are events of the last one. Those of another step that
        the caller names (``is_named``) are events of ``iteration``. Others are in no record. The listener gets them,
        but not where their ``loop`` is unknown: another loop has other numbers.
        """
        scalar = number(value)
        if scalar is None:
            drops.count(Signal.METRICS, "unsupported_type")
            return False
        scalar = in_range(scalar)
        alone = _recorded_alone(iteration, loop, is_named=is_named) if step is None else None
        if scalar is not None and alone is not None:
            self.log_single(scope, source, alone, str(key), scalar, loop)
            return True
        name = labels.name_of(str(key))
        if scalar is None:
            drops.count(Signal.METRICS, "non_finite")
        elif name is not None and self._take(name, source, iteration or 0):
            is_kept = _keep(step, scope, name, scalar)
            context = get_current() if is_kept or loop is None else set_value(steps.LOOP, loop, get_current())
            logged = LogCall(scope, source, iteration, None, {name: scalar}, context, clock.now())
            own = OwnValue(logged, not is_kept, loop is not None)
            self._post(Signal.METRICS, own)
        return True

    def record(self, call: LogCall) -> None:
        """Record a log call as one event, and no gauges."""
        loop = steps.loop_in(call.context)
        values: dict[str, Any] = {
            attributes.RL_LOOP_ITERATION: call.iteration,
            attributes.RL_LOOP_NAME: loop.name if loop is not None else None,
        }
        if call.first is not None:
            values |= {attributes.RL_STEP_FIRST: call.first, attributes.RL_STEP_LAST: call.iteration}
        if loop is not None and loop.source == LoopSource.GUESSED:
            # What the program logs may count otherwise.
            values[attributes.RL_LOOP_SOURCE] = loop.source
        scope, body, context, timestamp = call.scope, call.values, call.context, call.timestamp
        scope.event(events.RL_STEP, body=body, attributes=values, context=context, timestamp=timestamp)
        self._tell(call)

    def _tell(self, call: LogCall, *, listeners: bool = True) -> None:
        self.results.add(call.iteration, call.values, process_identity.current().algorithm)
        for listener in tuple(self.listeners.callbacks) if listeners else ():
            with guard("scalars.listener"):
                listener(call)

    def _measure_latest(self) -> None:
        for key in list(self._latest):
            # None where another thread drains the same queue.
            latest = self._latest.pop(key, None)
            if latest is not None:
                scope, value, context = latest
                _measure(scope, key, value, context)

    def _take(self, key: str, source: Source, step: int) -> bool:
        """Return whether ``source`` may record ``key`` at ``step``."""
        owner = self._owners.get(key)
        if owner is None:
            if len(self._owners) < MAXIMUM_KEYS:
                self._owners[key] = (source, step)
            return True
        best, last = owner
        if source is best:
            if step != last:
                self._owners[key] = (source, step)
            return True
        if source < best:
            # Another source has recorded this step already: from the next one on.
            self._owners[key] = (source, step)
            return step != last
        if step - last <= KEPT_FOR_STEPS:
            return False
        self._owners[key] = (source, step)
        return True

    def has_logged(self, key: str, step: int) -> bool:
        """Return whether a source has logged ``key`` in the steps before ``step``, or at it."""
        owner = self._owners.get(key)
        return owner is not None and step - owner[1] <= KEPT_FOR_STEPS

    def reset(self) -> None:
        """Forget who logged what, what waits, and what came of it: in a forked child it is the parent's."""
        self._owners.clear()
        self._recorded.clear()
        self._calls.clear()
        self._singles = None
        self._latest.clear()
        self.results = Results()


def _recorded_alone(iteration: int | None, loop: steps.Loop | None, *, is_named: bool) -> int | None:
    """Return the step of which a value is an event of its own: the one that is named, or the last one of ``loop``."""
    who = process_identity.current()
    # A verifier of Ray has no steps of its own, and knows whose its value is.
    if is_calling() or not (who.leads_training or (is_named and who.is_worker_of_ray)):
        return None
    last = loop.last if loop is not None and loop.gives_way and loop.last >= 0 else None
    return iteration if is_named else last


def _keep(step: steps.Step | None, scope: Scope, key: str, value: float) -> bool:
    """Keep the last value of ``key`` for the end of the step; False where that has no record, or no room."""
    if step is None or not step.is_open or not process_identity.current().leads_training:
        return False
    values = step.values.get(scope)
    if values is None:
        values = step.values[scope] = {}
    name = text(str(key), MAXIMUM_LENGTH)
    if name not in values and len(values) >= MAXIMUM_VALUES:
        drops.count(Signal.LOGS, "value_limit")
        return False
    if math.isfinite(values.get(name, 0.0)):
        # One that is not finite stays: it is what the rules look for.
        values[name] = value
    return True


def _record_values(step: steps.Step, _: float, end_time: int) -> None:
    """Record the values that the program gave in a recorded step, as of its end."""
    for scope, values in step.values.items():
        sink.record(LogCall(scope, Source.PRODUCER, step.iteration, None, values, step.context, end_time))


def _measure(scope: Scope, key: str, value: float, context: Context | None = None) -> None:
    if not math.isfinite(value):
        drops.count(Signal.METRICS, "non_finite")
        return
    scope.record(metrics.RL_TRAINER_METRIC, value, {attributes.RL_TRAINER_METRIC_KEY: key}, context)
    canonical = CANONICAL.get(key) or CANONICAL.get(key.removeprefix(TRAINER_PREFIX))
    if canonical is not None:
        scope.record(canonical, value, context=context)


def _result() -> tuple[Mapping[str, Any], int | None]:
    return sink.results.as_columns(), sink.results.left_out or None


sink = ScalarSink()
run_span.result = _result
lifecycle.after_fork_in_child(sink.reset)
# Here and not with the first value: before the listener of the health rules, which judges a step when it has ended.
steps.listeners.add(_record_values)
