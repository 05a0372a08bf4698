"""A histogram of the raw scores per reward function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral
from otel_rl.training.trace import trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context


class RewardScores:
    """Scores as the trainer computes them; each rank records those of its own samples."""

    def __init__(self) -> None:
        self._on_device: list[tuple[Sequence[str], Any]] = []

    def calculated(self, trainer: Any, samples: int, scores: Any) -> None:
        """``scores`` has a row per sample of all ranks, rank after rank, and a column per reward function."""
        if not scope.enabled or trace.is_open(spans.RL_EVALUATE):
            return
        if len(scores) > samples:
            first = trainer.accelerator.process_index * samples
            scores = scores[first : first + samples]
        if scores.device.type == "cpu":
            self._record(trainer.reward_func_names, scores)
        else:
            self._on_device.append((trainer.reward_func_names, scores))

    def scored(self) -> None:
        """The trainer has read the scores itself: reading them now waits for nothing."""
        while self._on_device:
            self._record(*self._on_device.pop())

    def _record(self, names: Sequence[str], scores: Any) -> None:
        by_function = dict(zip(names, scores.T.tolist(), strict=True))
        context = get_current()
        deferral.post(Signal.METRICS, lambda: _record(by_function, context))


def _record(by_function: Mapping[str, list[float]], context: Context) -> None:
    for name, column in by_function.items():
        # NaN is how the trainer notes that a function does not apply to a sample: no score, nothing lost.
        given = [score for score in column if not math.isnan(score)]
        scope.record_all(metrics.RL_REWARD_SCORE, given, {attributes.RL_REWARD_NAME: name}, context)


scores = RewardScores()
