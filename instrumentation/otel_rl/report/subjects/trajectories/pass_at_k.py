"""How many problems the model solves with several samples of each, as pass@k."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.trajectory_rows import Row
    from otel_rl.report.subjects.trajectories.groups import Key

#: Most groups that are counted.
GROUPS = 50_000
_FEWEST = 2


class Solved(NamedTuple):
    """pass@1 and pass@k of groups of at least ``k`` samples, 0 to 1."""

    groups: int
    k: int
    at_1: float
    at_k: float


class PassAtK:
    """Counts the samples of each group that succeeded, of those of which the program says it."""

    def __init__(self) -> None:
        self._groups: dict[Key, tuple[int, int]] = {}

    def add(self, row: Row, attempt: tuple[int, ...]) -> None:
        """Take in a sample; one without a group, or of which nobody says whether it succeeded, counts for none."""
        name, success = row.get(names.RL_GROUP_ID), row.get(names.RL_ROLLOUT_SUCCESS)
        if name is None or not isinstance(success, bool):
            return
        key = attempt, row.iteration, str(name)
        if key in self._groups or len(self._groups) < GROUPS:
            tried, succeeded = self._groups.get(key, (0, 0))
            self._groups[key] = tried + 1, succeeded + success

    @property
    def solved(self) -> Solved | None:
        """What all groups of several samples say; ``k`` is the size of the smallest one. None without such groups."""
        groups = [group for group in self._groups.values() if group[0] >= _FEWEST]
        if not groups:
            return None
        k = min(tried for tried, _ in groups)
        return Solved(len(groups), k, estimate(groups, 1), estimate(groups, k))


def estimate(groups: Iterable[tuple[int, int]], k: int) -> float:
    """Return the mean over groups of the chance that one of ``k`` samples drawn from a group has succeeded.

    The estimator without bias of Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.

    Args:
        groups: samples of each group, and those that succeeded; no group is smaller than ``k``.
        k: samples that are drawn.
    """
    chances = [1 - math.comb(tried - succeeded, k) / math.comb(tried, k) for tried, succeeded in groups]
    return math.fsum(chances) / len(chances)
