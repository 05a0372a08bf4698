"""What otel-rl itself took of the steps, and since when it records less because of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, spans
from otel_rl.store.reader.otlp_values import float_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Log, Span


@dataclass(slots=True)
class Reduced:
    """A process records less since ``iteration``; ``share`` of the steps' time was the latest reason."""

    who: str
    iteration: int | None
    share: float


@dataclass(slots=True)
class OwnCost:
    """CPU seconds of otel-rl and of the whole processes, over the steps of all ranks."""

    own: float = 0.0
    all: float = 0.0
    reduced: dict[str, Reduced] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The share of the CPU time; None where no step tells it."""
        return self.own / self.all if self.all else None

    def add_span(self, span: Span) -> None:
        """Take in the step of a rank; others are ignored."""
        own = _seconds(span.attributes.get(names.RL_TELEMETRY_CPU_TIME))
        spent = _seconds(span.attributes.get(names.RL_LOOP_CPU_TIME))
        if span.name == spans.RL_RANK_STEP.type and own is not None and spent is not None:
            self.own += own
            self.all += spent

    def add_log(self, log: Log) -> None:
        """Take in the event of a reduction; others are ignored."""
        if log.event != events.RL_TELEMETRY_REDUCED.name:
            return
        who, share = log.process.label, log.attributes.get(names.RL_TELEMETRY_CPU_SHARE)
        iteration = log.attributes.get(names.RL_LOOP_ITERATION)
        first = self.reduced.setdefault(who, Reduced(who, iteration if isinstance(iteration, int) else None, 0.0))
        first.share = share if isinstance(share, float) else 0.0


def _seconds(value: Any) -> float | None:
    seconds = float_or_none(value)
    return seconds if seconds is not None and seconds >= 0 else None
