"""What otel-rl itself took of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Span


@dataclass(slots=True)
class OwnCost:
    """CPU seconds of otel-rl and of the whole processes, over the steps of all ranks."""

    own: float = 0.0
    all: float = 0.0
    #: Steps of a rank that these are of.
    steps: int = 0

    def add_span(self, span: Span) -> None:
        """Add the step of a rank; other spans are ignored."""
        own = _seconds(span.attributes.get(names.RL_TELEMETRY_CPU_TIME))
        spent = _seconds(span.attributes.get(names.RL_LOOP_CPU_TIME))
        if span.name == spans.RL_RANK_STEP.type and own is not None and spent is not None:
            self.own += own
            self.all += spent
            self.steps += int_or_none(span.attributes.get(names.RL_LOOP_CPU_STEPS)) or 1


def _seconds(value: Any) -> float | None:
    seconds = float_or_none(value)
    return seconds if seconds is not None and seconds >= 0 else None
