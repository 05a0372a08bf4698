"""Values that a trainer logs: one sink for trainers and trackers.

A log call becomes one event with the exact values. Every finite number in it becomes the gauge ``rl.trainer.metric``,
and the metric of the registry where its key has one. What the program gives value by value, by :func:`otel_rl.metric`,
is one such event per step, when the step has ended.

The same value often comes from several sources: a trainer hands it to a tracker. Two rules keep it single:

* Inside a log call of one source the log calls of others are not recorded: the outermost call wins.
* Each key has one source at each step. When several log it on their own, the first one in :class:`Source` keeps it.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current, set_value

from otel_rl.core import clock
from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle
from otel_rl.telemetry.attribute_values import number, text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.telemetry import Scope

#: Key of the trainer -> metric of the registry. Several keys per metric: trainers and versions name them differently.
CANONICAL: Mapping[str, MetricDefinition] = {
    "loss": metrics.RL_TRAIN_LOSS,
    "grad_norm": metrics.RL_TRAIN_GRAD_NORM,
    "learning_rate": metrics.RL_TRAIN_LEARNING_RATE,
    "kl": metrics.RL_TRAIN_KL,
    "objective/kl": metrics.RL_TRAIN_KL,
    "entropy": metrics.RL_TRAIN_ENTROPY,
    "objective/entropy": metrics.RL_TRAIN_ENTROPY,
    "clip_ratio": metrics.RL_TRAIN_CLIP_RATIO,
    "clip_ratio/region_mean": metrics.RL_TRAIN_CLIP_RATIO,
    "reward": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "objective/scores": metrics.RL_ENVIRONMENT_REWARD_MEAN,
    "reward_std": metrics.RL_ENVIRONMENT_REWARD_STD,
    "completions/mean_length": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "completion_length": metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN,
    "completions/clipped_ratio": metrics.RL_SAMPLE_TRUNCATED_RATIO,
    "frac_reward_zero_std": metrics.RL_SAMPLE_ZERO_VARIANCE_RATIO,
    "sampling/sampling_logp_difference/mean": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "sampling/sampling_logp_difference/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "offpolicy/logprob_abs_diff/mean": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "offpolicy/logprob_abs_diff/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
    "train/train_rollout_logprob_abs_diff": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "logprob_difference": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MEAN,
    "logprob_difference/max": metrics.RL_SAMPLE_LOGPROB_DIFFERENCE_MAX,
}
#: Most keys whose source is remembered; further ones are recorded from every source.
MAXIMUM_KEYS = 4096
#: Most values of a step by :func:`otel_rl.metric` that its event has.
MAXIMUM_VALUES = 1024
#: A source that has not logged a key for this many steps gives it up.
KEPT_FOR_STEPS = 100

#: OTLP carries whole numbers of 64 bit.
_INTEGERS = 1 << 63

Scalar = float | int | str | bool | None
_LISTENER = guard("scalars.listener")


class Source(IntEnum):
    """Where log calls come from; for one key the lowest wins."""

    #: :func:`otel_rl.metric`.
    PRODUCER = 0
    #: What the trainer logs, as its callbacks get it.
    TRAINER = 1
    LIGHTNING = 2
    ACCELERATE = 3
    DEEPSPEED = 4
    RAY = 5
    WANDB = 6
    MLFLOW = 7
    SWANLAB = 8
    TRACKIO = 9
    TENSORBOARD = 10


class ScalarSink:
    """Takes the log calls of all sources in this process; see the module for which of them are recorded."""

    def __init__(self) -> None:
        #: Key -> the source it belongs to, the last step at which that source logged it.
        self._owners: dict[str, tuple[Source, int]] = {}
        self._calling: ContextVar[Source | None] = ContextVar("otel_rl_log_call", default=None)
        #: Key -> the latest number logged under it, not yet measured: the scope, the number, its context.
        self._latest: dict[str, tuple[Scope, float, Context]] = {}
        #: Called with each recorded log call: its step, the first step that it covers, its values, its context.
        self.listeners: list[Callable[[int | None, int | None, Mapping[str, Any], Context], None]] = []

    def begin_call(self, source: Source) -> Token[Source | None]:
        """Begin a log call of ``source``: until :meth:`end_call`, those of other sources are part of it."""
        outermost = self._calling.get()
        return self._calling.set(source if outermost is None else outermost)

    def end_call(self, token: Token[Source | None]) -> None:
        """End the call, which has returned."""
        self._calling.reset(token)

    def log(
        self,
        scope: Scope,
        source: Source,
        iteration: int | None,
        values: Mapping[str, Any],
        first: int | None = None,
    ) -> None:
        """Record one log call at step ``iteration``; it covers the steps from ``first`` on."""
        calling = self._calling.get()
        if not scope.enabled or (calling is not None and calling is not source):
            return
        owned = {str(key): value for key, value in values.items() if self._take(str(key), source, iteration or 0)}
        if owned:
            body, numbers = _exact(owned)
            context, timestamp = get_current(), clock.now()
            # A gauge has one value per export: of several log calls that are recorded together, the last one's.
            for key, value in numbers.items():
                # Taken out first: keys of one metric are measured in the order in which they were logged last.
                self._latest.pop(key, None)
                self._latest[key] = (scope, value, context)
            deferral.post(Signal.METRICS, self._measure_latest)
            deferral.post(Signal.LOGS, lambda: self._record(scope, iteration, first, body, context, timestamp))

    def measure(
        self,
        scope: Scope,
        source: Source,
        iteration: int | None,
        key: str,
        value: Any,
        step: steps.Step | None = None,
        loop: steps.Loop | None = None,
    ) -> bool:
        """Record one value as :meth:`log` does; return False where it is no number that can be read.

        Values given in an open ``step`` are one event when it ends, see :func:`_keep`. Others are in no record. The
        listener gets them, but not where their ``loop`` is unknown: another loop has other numbers.
        """
        scalar = number(value)
        if scalar is None:
            drops.count(Signal.METRICS, "unsupported_type")
            return False
        scalar = _in_range(scalar)
        if scalar is None:
            drops.count(Signal.METRICS, "non_finite")
        elif self._take(key, source, iteration or 0):
            # In order with what waits.
            self._latest.pop(key, None)
            context = get_current()
            self._latest[key] = (scope, scalar, context)
            if _keep(step, scope, key, scalar) or not self.listeners or loop is None:
                deferral.post(Signal.METRICS, self._measure_latest)
            else:
                of_loop = set_value(steps.LOOP, loop, context)
                deferral.post(Signal.METRICS, lambda: self._measure_and_notify(iteration, key, scalar, of_loop))
        return True

    def record(
        self, scope: Scope, iteration: int, values: Mapping[str, Scalar], context: Context, timestamp: int
    ) -> None:
        """Record values as one event, and no gauges; ``timestamp`` in ns since the epoch."""
        self._record(scope, iteration, None, values, context, timestamp)

    def _measure_and_notify(self, iteration: int | None, key: str, value: float, context: Context) -> None:
        self._measure_latest()
        self._notify(iteration, None, {key: value}, context)

    def _record(
        self,
        scope: Scope,
        iteration: int | None,
        first: int | None,
        body: Mapping[str, Scalar],
        context: Context,
        timestamp: int,
    ) -> None:
        loop = steps.loop_in(context)
        name = loop.name if loop is not None else None
        covers = {attributes.RL_STEP_FIRST: first, attributes.RL_STEP_LAST: iteration} if first is not None else {}
        scope.event(
            events.RL_STEP,
            body=body,
            attributes={attributes.RL_LOOP_ITERATION: iteration, attributes.RL_LOOP_NAME: name, **covers},
            context=context,
            timestamp=timestamp,
        )
        self._notify(iteration, first, body, context)

    def _notify(self, iteration: int | None, first: int | None, values: Mapping[str, Any], context: Context) -> None:
        for listener in tuple(self.listeners):
            with _LISTENER:
                listener(iteration, first, values, context)

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
        """Forget who logged what."""
        self._owners.clear()
        self._latest.clear()


def _exact(values: Mapping[str, Any]) -> tuple[dict[str, Scalar], dict[str, float | int]]:
    """Return the values that can be recorded, and the numbers among them."""
    body: dict[str, Scalar] = {}
    numbers: dict[str, float | int] = {}
    for key, value in values.items():
        if value is None or isinstance(value, bool | str):
            body[key] = value
            continue
        scalar = value if type(value) is float else number(value)
        if scalar is None:
            drops.count(Signal.LOGS, "unsupported_type")
        elif (scalar := _in_range(scalar)) is None:
            drops.count(Signal.LOGS, "non_finite")
        else:
            body[key] = numbers[key] = scalar
    return body, numbers


def _in_range(value: float) -> float | None:
    """Return a whole number beyond 64 bit as a float; None where it is beyond a float too."""
    if type(value) is not int or -_INTEGERS <= value < _INTEGERS:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def _keep(step: steps.Step | None, scope: Scope, key: str, value: float) -> bool:
    """Keep the last value of ``key`` for the end of the step; False where that has no record, or no room."""
    if step is None or not step.is_open or not process_identity.current().leads:
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
        sink.record(scope, step.iteration, values, step.context, end_time)


def _measure(scope: Scope, key: str, value: float, context: Context | None = None) -> None:
    if not math.isfinite(value):
        drops.count(Signal.METRICS, "non_finite")
        return
    scope.record(metrics.RL_TRAINER_METRIC, value, {attributes.RL_TRAINER_METRIC_KEY: key}, context)
    canonical = CANONICAL.get(key)
    if canonical is not None:
        scope.record(canonical, value, context=context)


sink = ScalarSink()
lifecycle.after_fork_in_child(sink.reset)
# Here and not with the first value: before the listener of the health rules, which judges a step when it has ended.
steps.listeners.add(_record_values)
