"""Which steps have spans: the ranks of a large job take turns, of short steps some do, and all obey one sampler."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from otel_rl.semconv import spans
from otel_rl.telemetry import run_span, sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.process import process_identity

#: Up to this many ranks every rank emits its step and phases at every step. In larger jobs rank 0 does, and the others
#: take turns: each at every tenth step, a tenth of them at each. Metrics, errors and the program's own spans come from
#: all ranks.
ALL_RANKS_LIMIT = 64
OTHER_RANKS_INTERVAL = 10

#: Why spans are left out: it is not this rank's turn, or the step is one of many short ones.
RANK_TURN, SHORT_STEP = "rank_turn", "short_step"
#: Spans that are left out for these reasons are no loss.
REASONS = frozenset({RANK_TURN, SHORT_STEP, sampling.ROLLOUT_SPANS})

#: Spans and values of a guessed step take about a millisecond of our threads, for which the program may have to wait.
#: So one step has them in so many seconds where steps are shorter; the first ones have them all.
SECONDS_PER_STEP_WITH_SPANS = 0.1
FIRST_STEPS = 64
#: Weight of the latest step in the mean of their lengths.
_LATEST = 1 / 16


class ShortSteps:
    """Chooses the steps with spans by how long the steps of a loop take."""

    def __init__(self) -> None:
        self._mean: float | None = None

    def takes(self, iteration: int, seconds: float) -> bool:
        """Return whether the step ``iteration``, which took ``seconds``, has spans.

        Each rank chooses by the mean of its own steps. Intervals are powers of two, so a rank with a shorter interval
        has spans of every step that another one has.
        """
        self._mean = seconds if self._mean is None else self._mean + (seconds - self._mean) * _LATEST
        # One that takes long among short ones is what people look for.
        if iteration <= FIRST_STEPS or max(seconds, self._mean) >= SECONDS_PER_STEP_WITH_SPANS:
            return True
        times_shorter = SECONDS_PER_STEP_WITH_SPANS / max(self._mean, 1e-6)
        interval: int = 1 << math.ceil(math.log2(times_shorter))
        return iteration % interval == 0


def has_its_turn(identity: process_identity.ProcessIdentity, iteration: int) -> bool:
    """Return whether this rank emits the spans of step ``iteration``."""
    rank = identity.rank
    if not rank or identity.steps_key is None or (identity.world_size or 1) <= ALL_RANKS_LIMIT:
        return True
    return (iteration + rank) % OTHER_RANKS_INTERVAL == 0


def root_is_sampled(trace_id: int, values: Mapping[str, Any]) -> bool:
    """Return whether the configured sampler takes the step's root, whose values it sees; all ranks decide alike."""
    sampler = getattr(trace_api.get_tracer_provider(), "sampler", None)
    if sampler is None:
        return True
    # In an empty context, as rank 0 has it: a span that happens to be open here must not decide.
    result = sampler.should_sample(
        Context(), trace_id, spans.RL_LOOP.type, SpanKind.INTERNAL, values, [run_span.link()]
    )
    return bool(result.decision.is_sampled())
