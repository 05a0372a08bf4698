"""Model calls of the trajectories that are no turns of the policy: those of judges, and those inside of tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from otel_rl.store.tables import RunTables

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
#: The same on the span of a step, of judges that rewards of whole batches asked, and their seconds: no row has them.
OF_BATCHES = (
    names.RL_REWARD_JUDGE_CALLS,
    names.RL_REWARD_JUDGE_ERRORS,
    names.RL_REWARD_JUDGE_INPUT_TOKENS,
    names.RL_REWARD_JUDGE_OUTPUT_TOKENS,
    names.RL_REWARD_JUDGE_SECONDS,
)
_OF_BATCHES = f"SELECT name, sum(value) AS total FROM step_value WHERE name IN {OF_BATCHES} GROUP BY name"


@dataclass(slots=True)
class SideTotals:
    """Sums over all trajectories."""

    calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

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


def of_batches(tables: RunTables) -> list[str]:
    """Return what judges took that score several trajectories at once, in steps with spans."""
    sums = {row["name"]: row["total"] for row in tables.rows(_OF_BATCHES)}
    *counts, seconds = (sums.get(name, 0.0) for name in OF_BATCHES)
    where = f"{human.duration(seconds)} in all, for whole batches, and in no row"
    return SideTotals(*map(int, counts)).sentence("Judges were asked", where)
