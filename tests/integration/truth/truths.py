"""What is true of a rollout, and the columns that say it."""

from __future__ import annotations

from typing import Any, NamedTuple

import own_rollouts as own

#: Tokens that the server takes and gives in each answer that is read to its end.
GIVEN, MADE = 7, 3


class Truth(NamedTuple):
    """What is true of a rollout; ``read`` are answers that were read to their ends."""

    turns: int
    calls: int
    errors: int = 0
    read: int = 0
    turn_rewards: list[float | None] | None = None
    status: str = "finished"
    #: That reach the server; None for one per call.
    requests: int | None = None
    #: By the name of their function; None for those of the turns alone, which are of "r".
    scores: dict[str, float] | None = None
    #: Calls, failed ones, and answers that were read, of a judge, and of models inside of tools.
    judge: tuple[int, int, int] = (0, 0, 0)
    tool_models: tuple[int, int, int] = (0, 0, 0)
    tools: int = 0
    #: Model calls in child processes.
    in_children: int = 0
    is_suspect: bool = False
    #: Lowest and highest version of the weights, and how many the engine is behind.
    versions: tuple[int, int, int] | None = None
    #: The score of :func:`own_rollouts.failed_among_others`.
    outcome: float | None = None
    #: Versions by engine.
    of_engines: list[int] | None = None

    @property
    def all_requests(self) -> int:
        """How many reach the server."""
        return self.calls + self.judge[0] + self.tool_models[0] if self.requests is None else self.requests

    def row(self, case: str) -> dict[str, Any]:
        """The columns of the row of a case."""
        scores = self.scores if self.outcome is None else {own.outcome_of(case): self.outcome}
        if scores is None and self.turn_rewards:
            scores = {"r": sum(reward or 0 for reward in self.turn_rewards)}
        lowest, highest, behind = self.versions or (None, None, None)
        return {
            "rl.rollout.turns": self.turns,
            "rl.rollout.model_calls": self.calls,
            "rl.rollout.model_errors": self.errors,
            **_tokens("", self.read),
            **_of_role("judge_calls", "judge_", self.judge),
            **_of_role("tool_model_calls", "tool_model_", self.tool_models),
            "rl.rollout.tool_calls": self.tools,
            "rl.rollout.child_calls": self.in_children,
            "rl.rollout.turn_rewards": self.turn_rewards,
            "rl.rollout.reward": sum(scores.values()) if scores else None,
            "scores": scores,
            "rl.rollout.status": self.status,
            "rl.rollout.suspect": self.is_suspect,
            "rl.rollout.policy_version.min": lowest,
            "rl.rollout.policy_version.max": highest,
            "rl.rollout.versions_behind": behind,
            "rl.rollout.engine_versions": self.of_engines,
        }


def _of_role(calls: str, role: str, numbers: tuple[int, int, int]) -> dict[str, Any]:
    """The columns of calls that are no policy's."""
    known = {f"rl.rollout.{calls}": numbers[0], f"rl.rollout.{role}errors": numbers[1]}
    return known | _tokens(role, numbers[2])


def _tokens(role: str, read: int) -> dict[str, Any]:
    return {
        f"rl.rollout.{role}input_tokens": GIVEN * read,
        f"rl.rollout.{role}output_tokens": MADE * read,
    }
