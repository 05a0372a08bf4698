"""Which processes emit the spans of a step: the ranks of a large job take turns, and all obey the same sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from otel_rl.semconv import spans
from otel_rl.telemetry import run_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.process import process_identity

#: Up to this many ranks every rank emits its step and phases at every step. In larger jobs rank 0 does, and the others
#: take turns: each at every tenth step, a tenth of them at each. Metrics, errors and the program's own spans come from
#: all ranks.
ALL_RANKS_LIMIT = 64
OTHER_RANKS_INTERVAL = 10

#: Reason under which the spans are counted that a rank leaves out because it is not its turn.
THINNED = "rank_turn"


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
