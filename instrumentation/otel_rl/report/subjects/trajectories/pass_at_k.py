"""How many problems the model solves with several samples of each, as pass@k."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.collected import asked_once
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected

#: Samples of a group that say whether they succeeded, those that did, and groups like it.
#: One that failed has not, if the others of its group say.
_OUTCOME = f"coalesce(success, CASE status WHEN '{Status.FAILED}' THEN 0 END)"
_GROUPS = f"""
WITH tried AS (SELECT count({_OUTCOME}) AS tried, sum({_OUTCOME}) AS succeeded FROM sample JOIN process USING (process)
               WHERE group_id IS NOT NULL AND coalesce(evaluation, 0) = ?
               GROUP BY attempt, step, group_id HAVING count(success) > 0)
SELECT tried, succeeded, count(*) FROM tried WHERE tried > 1 GROUP BY tried, succeeded"""


class Solved(NamedTuple):
    """pass@1 and pass@k of groups of at least ``k`` samples, 0 to 1."""

    groups: int
    k: int
    at_1: float
    at_k: float


@asked_once
def solved(collected: Collected, *, evaluation: bool) -> Solved | None:
    """Return what groups of several samples say; ``k`` is the size of the smallest one. None without such groups."""
    groups = [tuple(row) for row in collected.tables.rows(_GROUPS, int(evaluation))]
    if not groups:
        return None
    k = min(tried for tried, _, _ in groups)
    return Solved(sum(number for _, _, number in groups), k, estimate(groups, 1), estimate(groups, k))


def estimate(groups: Iterable[tuple[int, int, int]], k: int) -> float:
    """Return the mean over groups of the chance that one of ``k`` samples drawn from a group has succeeded.

    The estimator without bias of Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.

    Args:
        groups: samples of a group, those that succeeded, and how many groups are alike; none is smaller than ``k``.
        k: samples that are drawn.
    """
    chances = [
        (number * (1 - math.comb(tried - succeeded, k) / math.comb(tried, k)), number)
        for tried, succeeded, number in groups
    ]
    return math.fsum(chance for chance, _ in chances) / sum(number for _, number in chances)
