"""Scores of chosen samples of a trainer's batch are no base for a mean: the report leaves them out of its own."""

from __future__ import annotations

from types import SimpleNamespace

from otel_rl.report.core.totals import MetricTotals
from otel_rl.report.subjects.rewards.aggregate import Rewards
from otel_rl.report.subjects.trajectories.aggregate import Trajectories
from otel_rl.semconv import metrics
from otel_rl.store.reader import Point, Process
from otel_rl.store.reader.records import Log


def evaluation(score, **attributes):
    values = {"gen_ai.evaluation.name": "f", "gen_ai.evaluation.score.value": score, "rl.loop.iteration": 1}
    process = SimpleNamespace(rank=0, attempt=(0,))
    return Log(
        process, "otel_rl.trl", "gen_ai.evaluation.result", 1, 9, "INFO", {}, values | attributes, trace_id="a" * 32
    )


def test_the_scores_of_chosen_samples_are_left_out_and_those_of_rollouts_are_not():
    rewards, none = Rewards(), SimpleNamespace(by=lambda *_: {})
    rewards.add_log(evaluation(5.0, **{"rl.trajectory.reason": "highest_reward"}))
    assert rewards.scores(none, {}) == {}
    assert rewards.by_trace == {}
    rewards.add_log(evaluation(0.5))
    assert rewards.scores(none, {})["f"].cell.count == 1
    assert rewards.by_trace == {"a" * 32: 0.5}


def test_quantiles_come_from_events_or_rows_where_these_have_as_many_scores_as_the_histogram():
    totals = MetricTotals((metrics.RL_REWARD_SCORE,))
    for name in ("f", "of_samples"):
        point = Point(
            Process("one"), "s", metrics.RL_REWARD_SCORE.name, "histogram", True, 1, 2, 6.0, {"rl.reward.name": name},
            10, 0.0, 1.0, [0.5, 2.0], [4, 6],
        )  # fmt: skip
        totals.add(point)
    totals.close()
    rewards, trajectories = Rewards(), Trajectories()
    for score in (0.0,) * 4 + (1.0,) * 6:
        rewards.add_log(evaluation(score))
    body = {"rl.reward.names": ["of_samples"], "rl.reward.scores": [[0.0] * 4 + [1.0] * 6], "rl.rollout.id": [""] * 10}
    process = SimpleNamespace(rank=0, attempt=(0,))
    trajectories.add_log(Log(process, "s", "rl.trajectories", 1, 9, "INFO", body, {}, ""))
    scores = rewards.scores(totals, trajectories.scores)
    assert {name: spread.quantile(0.5) for name, spread in scores.items()} == {"f": 1.0, "of_samples": 1.0}
    assert {name: spread.quantile(0.05) for name, spread in scores.items()} == {"f": 0.0, "of_samples": 0.0}
