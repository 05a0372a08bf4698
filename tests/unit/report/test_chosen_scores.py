"""Scores of chosen samples of a trainer's batch are no base for a mean: the report leaves them out of its own."""

from __future__ import annotations

from types import SimpleNamespace

from otel_rl.offline.reader.records import Log
from otel_rl.offline.report.aggregate.rewards import Rewards


def evaluation(score, **attributes):
    values = {"gen_ai.evaluation.name": "f", "gen_ai.evaluation.score.value": score, "rl.loop.iteration": 1}
    process = SimpleNamespace(rank=0, attempt=(0,))
    return Log(
        process, "otel_rl.trl", "gen_ai.evaluation.result", 1, 9, "INFO", {}, values | attributes, trace_id="a" * 32
    )


def test_the_scores_of_chosen_samples_are_left_out_and_those_of_rollouts_are_not():
    rewards, none = Rewards(), SimpleNamespace(by=lambda *_: {})
    rewards.add_log(evaluation(5.0, **{"rl.trajectory.reason": "highest_reward"}))
    assert rewards.scores(none) == {}
    assert rewards.by_trace == {}
    rewards.add_log(evaluation(0.5))
    assert rewards.scores(none)["f"].cell.count == 1
    assert rewards.by_trace == {"a" * 32: 0.5}
