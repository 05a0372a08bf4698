"""The tail of generation: the time of a step in which few of its rollouts are still active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.store.tables.load import ROLLOUT

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

#: Rollouts that a step must have: a tenth of fewer is one or none.
FEWEST_ROLLOUTS = 20

_NUMBER = f"SELECT count(*) FROM rollout WHERE kind = '{ROLLOUT}'"
_OF_STEPS = f"FROM rollouts WHERE kind = '{ROLLOUT}' AND step IS NOT NULL"
_MOST = f"SELECT count(*) {_OF_STEPS} GROUP BY start, step ORDER BY 1 DESC LIMIT 1"
#: The tail begins at the last moment at which a tenth of the rollouts was active; without one they run one after the
#: other, or a few at a time.
_TAILS = f"""
WITH change AS (SELECT start, step, started AS moment, 1 AS more {_OF_STEPS}
                UNION ALL SELECT start, step, ended, -1 {_OF_STEPS}),
     moments AS (SELECT start, step, moment, count(*) OVER (PARTITION BY start, step) / 2 AS rollouts,
                        sum(more) OVER (PARTITION BY start, step ORDER BY moment, more
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS active FROM change),
     tails AS (SELECT start, step, rollouts, (max(moment) - min(moment)) / 1e9 AS generation,
                      (max(moment) - max(CASE WHEN 10 * active >= rollouts THEN moment END)) / 1e9 AS tail
               FROM moments GROUP BY start, step)
SELECT count(*), sum(generation), sum(tail), max(tail), step
FROM tails WHERE rollouts >= {FEWEST_ROLLOUTS} AND tail IS NOT NULL GROUP BY start ORDER BY start DESC LIMIT 1"""


@dataclass(frozen=True, slots=True)
class TailTotals:
    """Seconds over all steps with enough rollouts."""

    steps: int
    generation: float
    tail: float
    longest: float
    longest_step: int

    @property
    def share(self) -> float:
        """Share of the generation time."""
        return self.tail / self.generation if self.generation else 0.0


@asked_once
def of_latest_attempt(collected: Collected) -> TailTotals | None:
    """Return the tails of the steps of the latest attempt; None if no step has one."""
    return next((TailTotals(*row) for row in collected.tables.rows(_TAILS)), None)


def number_of_rollouts(collected: Collected) -> int:
    """Return how many rollouts have a span, in a step or in none."""
    return int(collected.tables.value(_NUMBER))


def most_of_a_step(collected: Collected) -> int:
    """Return the rollouts of the step with most of them."""
    return collected.tables.value(_MOST) or 0
