"""Where the scores of the report come from: rows, and events of scores outside of all rollouts."""

from __future__ import annotations

from types import SimpleNamespace

from support.reward_readers import PROCESS, tables_of

from otel_rl.report.core.totals import MetricTotals
from otel_rl.report.subjects.rewards import scores
from otel_rl.semconv import metrics
from otel_rl.store.reader import Point, Process
from otel_rl.store.reader.records import Log


def evaluation(score, **attributes):
    values = {"gen_ai.evaluation.name": "f", "gen_ai.evaluation.score.value": score, "rl.loop.iteration": 1}
    return Log(
        PROCESS, "otel_rl.trl", "gen_ai.evaluation.result", 1, 9, "INFO", {}, values | attributes, trace_id="a" * 32
    )


def rows(*scores):
    body = {"rl.reward.names": ["f"], "rl.reward.scores": [list(scores)], "rl.rollout.id": [""] * len(scores)}
    return Log(PROCESS, "s", "rl.trajectories", 1, 9, "INFO", body, {"rl.loop.iteration": 1}, "")


def histogram(name):
    totals = MetricTotals((metrics.RL_REWARD_SCORE,))
    totals.add(
        Point(
            Process("one"),
            "s",
            metrics.RL_REWARD_SCORE.name,
            "histogram",
            True,
            1,
            2,
            6.0,
            {"rl.reward.name": name},
            10,
            0.0,
            1.0,
            [0.5, 2.0],
            [4, 6],
        )
    )
    return totals


def collected(*logs, totals=None):
    """What a report has collected, as far as scores need it."""
    return SimpleNamespace(tables=tables_of(*logs), totals=totals or MetricTotals(()), answers={}, only=None)


def test_the_scores_of_chosen_samples_and_of_rollouts_come_from_their_rows_alone():
    chosen = evaluation(5.0, **{"rl.trajectory.reason": "highest_reward", "rl.rollout.id": "1-3"})
    others = [chosen, evaluation(1.0, **{"rl.rollout.id": "r"})]
    assert scores.by_name(collected(*others)) == {}
    found = collected(*others, rows(5.0, 1.0, None, True))
    assert (scores.by_name(found)["f"].cell.count, scores.by_name(found)["f"].cell.total) == (2, 6.0)
    [line] = scores.over_steps(found).values()
    assert (line.x, line.means) == ([1], [3.0])


def test_scores_outside_of_all_rollouts_are_added_to_those_of_rows():
    logs = [rows(0.0), evaluation(0.5), evaluation(1.0)]
    # Two points are no curve.
    assert scores.in_order(collected(*logs)) == []
    found = collected(*logs, evaluation(0.0))
    assert (scores.by_name(found)["f"].cell.count, scores.by_name(found)["f"].cell.total) == (4, 1.5)
    [curve] = scores.in_order(found)
    assert curve.y == [0.5, 1.0, 0.0]


def test_quantiles_are_exact_where_scores_are_recorded_one_by_one_and_else_those_of_the_histogram():
    exact = scores.by_name(collected(rows(*(0.0,) * 4, *(1.0,) * 6), totals=histogram("f")))["f"]
    assert [exact.quantile(share) for share in (0.05, 0.5)] == [0.0, 1.0]
    assert scores.by_name(collected(totals=histogram("f")))["f"].cell.count == 10


def test_a_histogram_with_more_scores_than_the_rows_counts_since_another_process_has_scored_too():
    assert scores.by_name(collected(rows(0.0), totals=histogram("f")))["f"].cell.count == 10
