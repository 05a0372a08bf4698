"""Model calls of the trajectories that are no turns of the policy: those of judges, and those inside of tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.store.reader.otlp_values import float_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.reader import Span


#: Columns of the calls of each, in the order of the fields of :class:`SideTotals`.
JUDGE = (
    names.RL_ROLLOUT_JUDGE_CALLS,
    names.RL_ROLLOUT_JUDGE_ERRORS,
    names.RL_ROLLOUT_JUDGE_INPUT_TOKENS,
    names.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS,
)
TOOL_MODEL = (
    names.RL_ROLLOUT_TOOL_MODEL_CALLS,
    names.RL_ROLLOUT_TOOL_MODEL_ERRORS,
    names.RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS,
    names.RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS,
)
#: The same on the span of a step, of judges that rewards of whole batches asked: no row has them.
OF_BATCHES = (
    names.RL_REWARD_JUDGE_CALLS,
    names.RL_REWARD_JUDGE_ERRORS,
    names.RL_REWARD_JUDGE_INPUT_TOKENS,
    names.RL_REWARD_JUDGE_OUTPUT_TOKENS,
)


@dataclass(slots=True)
class SideTotals:
    """Sums over all trajectories."""

    calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add_numbers(self, numbers: Iterable[float | None]) -> None:
        """Add numbers in the order of the fields."""
        for field, number in zip(self.__slots__, numbers, strict=True):
            setattr(self, field, getattr(self, field) + int(number or 0))

    def as_json(self) -> dict[str, Any] | None:
        """Return the sums; None without a call."""
        return asdict(self) if self.calls else None

    def sentence(self, whose: str, where: str = "no turns, and in no other count") -> list[str]:
        """Return what the calls took; ``whose`` begins it, ``where`` says what they are in."""
        if not self.calls:
            return []
        failed = f" ({human.number(self.errors)} failed)" if self.errors else ""
        tokens = f"{human.number(self.input_tokens)} input and {human.number(self.output_tokens)} output tokens"
        return [f"{whose} {human.amount(self.calls, 'time')}{failed}, {tokens}: {where}."]


class JudgesOfBatches:
    """Judges of rewards that score several trajectories at once, in steps with spans; and the sum of their seconds."""

    def __init__(self) -> None:
        self.totals = SideTotals()
        self.seconds = 0.0

    def add_span(self, span: Span) -> None:
        """Take in what a step says of them."""
        if span.name != spans.RL_RANK_STEP.type or names.RL_REWARD_JUDGE_CALLS not in span.attributes:
            return
        self.totals.add_numbers(float_or_none(span.attributes.get(name)) for name in OF_BATCHES)
        self.seconds += float_or_none(span.attributes.get(names.RL_REWARD_JUDGE_SECONDS)) or 0.0

    def sentence(self) -> list[str]:
        """Return what their calls took."""
        where = f"{human.duration(self.seconds)} in all, for whole batches, and in no row"
        return self.totals.sentence("Judges were asked", where)
