"""The section on rewards: scores and durations of the reward functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section, line_chart, some_charts
from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.statistics import Spread
from otel_rl.report.subjects.calls.lines import of_rewards
from otel_rl.report.subjects.rewards import scores

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected

_SECONDS = "seconds"
_SECONDS_OF_CALLS = """
SELECT name, avg(seconds) AS mean FROM call JOIN callee USING (callee) WHERE kind = 'reward' AND is_fair GROUP BY name
"""
_BY_ENVIRONMENT = """
SELECT environment, count(*), sum(status = 'failed'), avg(reward) FROM sample
WHERE environment IS NOT NULL AND NOT is_pending GROUP BY environment ORDER BY environment
"""


def build(collected: Collected, charts: Charts) -> Section:
    """Return scores and durations by reward function."""
    filler = "Scores come from the reward functions of a supported trainer, or from otel_rl.reward()."
    section = Section("rewards", "Rewards", filler)
    tables = [table for table in (_table(collected), _by_environment(collected)) if table.rows]
    if not tables:
        return section
    section.blocks += [PageBlock(table=table) for table in tables]
    section.blocks += _over_time(collected, charts)
    sequence = scores.in_order(collected)
    if sequence:
        title = "Scores in the order in which they came"
        section.blocks.append(PageBlock(charts=[charts.curves(title, "", sequence, x_label="evaluation")]))
    return section


def _table(collected: Collected) -> Table:
    """Return scores by reward function."""
    table = Table(["Reward", ">Scores", ">Mean", ">p5", ">Median", ">p95", ">Lowest", ">Highest", ">Time per call"])
    by_name = scores.by_name(collected)
    seconds = {row["name"]: row["mean"] for row in collected.tables.rows(_SECONDS_OF_CALLS)}
    for name in sorted({*by_name, *seconds}):
        spread = by_name.get(name, Spread())
        cell = spread.cell
        quantiles = [quantile_cell(spread, share, human.number) for share in (0.05, 0.5, 0.95)]
        count, mean, *ends = [number_cell(value) for value in (cell.count, cell.mean, cell.minimum, cell.maximum)]
        table.rows.append([Value(name), count, mean, *quantiles, *ends, seconds_cell(seconds.get(name, math.nan))])
    return table


def _by_environment(collected: Collected) -> Table:
    """Return rewards and failures by environment."""
    table = Table(["Environment", ">Rollouts", ">Failed", ">Mean reward"])
    for name, count, failed, reward in collected.tables.rows(_BY_ENVIRONMENT):
        mean = math.nan if reward is None else reward
        table.rows.append([Value(name), number_cell(count), number_cell(failed), number_cell(mean)])
    return table


def _over_time(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return duration of the reward functions by rank, and their scores."""
    functions = {_place(*key): line for key, line in of_rewards(collected, "seconds").items()}
    of_samples = {_place(*key): line for key, line in scores.over_steps(collected).items()}
    return some_charts(
        line_chart(charts, "reward-seconds", "Duration of a reward function", "mean of the step", functions, _SECONDS),
        line_chart(charts, "reward-scores", "Scores", "mean of the step", of_samples, "score"),
    )


def _place(name: str, rank: int | None) -> str:
    return name if rank is None else f"{name}, rank {rank}"
