"""Model calls of a trajectory that are no turns of its policy: those of judges, and those that its tools make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Roles -> attributes of calls, failed ones, input and output tokens.
COLUMNS = {
    Role.JUDGE: (
        attributes.RL_ROLLOUT_JUDGE_CALLS,
        attributes.RL_ROLLOUT_JUDGE_ERRORS,
        attributes.RL_ROLLOUT_JUDGE_INPUT_TOKENS,
        attributes.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS,
    ),
    Role.TOOL: (
        attributes.RL_ROLLOUT_TOOL_MODEL_CALLS,
        attributes.RL_ROLLOUT_TOOL_MODEL_ERRORS,
        attributes.RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS,
        attributes.RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS,
    ),
}


class SideCalls:
    """Counters of the calls of one role; a token count is None as long as no answer has one."""

    __slots__ = ("calls", "errors", "input_tokens", "output_tokens")

    def __init__(self) -> None:
        self.calls = self.errors = 0
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None

    def ended(self, tokens: tuple[int | None, int | None], *, failed: bool) -> None:
        """Count a call that has ended; ``tokens`` are input and output, where the server sent them."""
        self.calls += 1
        if failed:
            self.errors += 1
        given, made = tokens
        if given is not None:
            self.input_tokens = (self.input_tokens or 0) + given
        if made is not None:
            self.output_tokens = (self.output_tokens or 0) + made

    def add(self, others: SideCalls) -> None:
        """Add other calls of the role."""
        self.ended((others.input_tokens, others.output_tokens), failed=False)
        self.calls += others.calls - 1
        self.errors += others.errors


def totals(by_role: Mapping[str, SideCalls]) -> dict[str, Any]:
    """Return the counters as attributes; nothing of a role without calls."""
    values: dict[str, Any] = {}
    for role, side in by_role.items():
        numbers = side.calls, side.errors, side.input_tokens, side.output_tokens
        values.update((name, number) for name, number in zip(COLUMNS[role], numbers, strict=True) if number is not None)
    return values
