"""Reward functions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


def correct(answer: list[int], numbers: list[int]) -> float:
    """1 where ``answer`` has the numbers in order."""
    return float(answer == sorted(numbers))


@dataclass(frozen=True, slots=True)
class Judge:
    """Says how many neighbours are in order."""

    patience: int

    def __call__(self, answer: list[int]) -> dict[str, float | str]:
        """Score and comment."""
        if len(answer) > self.patience:
            raise TimeoutError(f"judge gave up on {answer}")
        pairs = list(pairwise(answer))
        ordered = sum(first <= second for first, second in pairs) / max(len(pairs), 1)
        return {"score": ordered, "length": float(len(answer)), "comment": f"looked at {answer}"}
