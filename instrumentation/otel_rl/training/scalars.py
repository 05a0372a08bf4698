"""Records the trainer's scalars: one event with exact values, a gauge per key, and matching registry metrics."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl import clock
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, deferral, drops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context

    from otel_rl.semconv.definitions import MetricDefinition

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
}

Scalar = float | int | str | bool | None


class TrainerScalars:
    """Records the log calls of the trainer in this process."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._last_logged = 0
        self._tokens = 0

    def training_begins(self, state: Any) -> None:
        """Count from where ``state`` stands: a resumed run did not train its earlier steps here."""
        self._last_logged = state.global_step
        self._tokens = state.num_input_tokens_seen

    def step_ends(self, state: Any) -> None:
        """One optimizer step more, in the rank that speaks for all; ``state`` counts the tokens of all ranks."""
        if not state.is_world_process_zero:
            return
        self._scope.record(metrics.RL_TRAIN_STEPS, 1)
        tokens = state.num_input_tokens_seen
        if tokens > self._tokens:
            self._scope.record(metrics.RL_TRAIN_TOKENS, tokens - self._tokens)
        self._tokens = tokens

    def logged(self, state: Any, logs: Mapping[str, Any]) -> None:
        """Record one log call; only the rank that logs does."""
        if not state.is_world_process_zero:
            return
        values, iteration = _scalars(logs), state.global_step
        first = iteration
        if "loss" in values:
            first, self._last_logged = min(self._last_logged + 1, iteration), iteration
        context, timestamp = get_current(), clock.now()
        deferral.post(Signal.LOGS, lambda: self._record(iteration, first, values, context, timestamp))

    def _record(self, iteration: int, first: int, values: dict[str, Scalar], context: Context, timestamp: int) -> None:
        for key, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._measure(key, value)
        self._scope.event(
            events.RL_STEP,
            body=values,
            attributes={
                attributes.RL_LOOP_ITERATION: iteration,
                attributes.RL_STEP_FIRST: first,
                attributes.RL_STEP_LAST: iteration,
            },
            context=context,
            timestamp=timestamp,
        )

    def _measure(self, key: str, value: float) -> None:
        if not math.isfinite(value):
            drops.count(Signal.METRICS, "non_finite")
            return
        self._scope.record(metrics.RL_TRAINER_METRIC, value, {attributes.RL_TRAINER_METRIC_KEY: key})
        canonical = CANONICAL.get(key)
        if canonical is not None:
            self._scope.record(canonical, value)


def _scalars(logs: Mapping[str, Any]) -> dict[str, Scalar]:
    """The values that can be recorded. Tensors are left out: reading one would wait for its device."""
    found: dict[str, Scalar] = {}
    for key, value in logs.items():
        if value is None or isinstance(value, bool | str):
            found[key] = value
        elif isinstance(value, numbers.Integral):
            found[key] = int(value)
        elif isinstance(value, numbers.Real):
            found[key] = float(value)
        else:
            drops.count(Signal.LOGS, "unsupported_type")
    return found
