"""Last and best values of what was logged, and of which keys it is known what is better."""

from __future__ import annotations

import math

import pytest

import otel_rl
from otel_rl.semconv import attributes
from otel_rl.telemetry import Scope, run_span
from otel_rl.training import scalars
from otel_rl.training.results import MAXIMUM_KEYS, Results, direction
from otel_rl.training.scalars import Source

COLUMNS = (
    attributes.RL_RUN_RESULT_KEY,
    attributes.RL_RUN_RESULT_LAST,
    attributes.RL_RUN_RESULT_LAST_STEP,
    attributes.RL_RUN_RESULT_BEST,
    attributes.RL_RUN_RESULT_BEST_STEP,
)


def rows(results):
    columns = results.as_columns()
    return list(zip(*(columns[name] for name in COLUMNS), strict=True))


@pytest.mark.parametrize(
    "key",
    [
        *(
            "reward",
            "rewards/accuracy_reward/mean",
            "objective/scores",
            "critic/rewards/mean",
            "val-core/math/acc/mean@1",
        ),
        *(
            "eval_accuracy",
            "mean_token_accuracy",
            "success_rate",
            "pass@1",
            "win_rate",
            "rewards/margins",
            "rewards/length_reward/mean",
            "val/reward/code",
        ),
    ],
)
def test_more_is_better_of_rewards_and_accuracies(key):
    assert direction(key, "grpo") == 1


@pytest.mark.parametrize("key", ["loss", "eval_loss", "train/loss", "perplexity", "eval/ppl", "reward_loss"])
def test_less_is_better_of_losses_and_perplexity(key):
    assert direction(key, "sft") == -1


@pytest.mark.parametrize(
    "key",
    [
        *("reward_std", "rewards/accuracy_reward/std", "frac_reward_zero_std", "critic/rewards/max", "num_rewards"),
        *("rewards/chosen", "rewards/rejected", "kl", "reward/kl", "entropy", "learning_rate", "grad_norm", "epoch"),
        *(
            "actor/pg_loss",
            "critic/vf_loss",
            "policy_loss",
            "aux_loss",
            "kl_loss",
            "forward_pass",
            "lossless",
            "reward_length",
        ),
        *("reward/len", "reward_lr", "reward_learning_rate", "reward_beta", "reward_temperature", "return_code"),
        *("timing_s/reward", "time/reward_fn", "time_per_step/reward", "lr/reward_model", "reward_function_calls"),
        *("reward_time", "timers/reward", "reward_ms", "reward_throughput"),
    ],
)
def test_of_what_depends_on_other_values_neither_is_better(key):
    assert direction(key, "sft") == 0


def test_the_loss_of_a_policy_gradient_has_no_best_value():
    assert [direction("loss", algorithm) for algorithm in ("grpo", "ppo", "rloo", "dpo", None)] == [0, 0, 0, -1, -1]
    assert direction("perplexity", "grpo") == -1


@pytest.mark.parametrize("key", ["return", "rollout/ep_rew_mean", "charts/episodic_return", "environment/return_mean"])
def test_more_is_better_of_returns(key):
    assert direction(key, None) == 1


@pytest.mark.parametrize("algorithm", ["a2c", "sac", "dqn", "ppo"])
def test_the_loss_of_classic_algorithms_has_no_best_value(algorithm):
    assert [direction(key, algorithm) for key in ("loss", "train/loss", "torch/loss")] == [0, 0, 0]


def bests(*logged, algorithm=None):
    results = Results()
    for step, values in enumerate(logged):
        results.add(step, values, algorithm)
    return {key: best for key, _, _, best, _ in rows(results)}


@pytest.mark.parametrize("key", ["environment/episodes", "rollout/ep_len_mean", "charts/episodic_return", "reward"])
def test_where_rewards_were_logged_loss_has_no_best_value_whichever_came_first(key):
    loss, other = {"torch/loss": 1.0, "perplexity": 2.0}, {key: 1.0}
    for logged in ((loss, other, loss), (other, loss), (loss | other,)):
        found = bests(*logged)
        assert (found["torch/loss"], found["perplexity"]) == (None, 2.0)


def test_of_a_plain_loop_and_of_preferences_the_lowest_loss_is_the_best():
    assert bests({"torch/loss": 1.0, "loss": 3.0}, {"torch/loss": 0.5})["torch/loss"] == 0.5
    assert bests({"loss": 1.0, "rewards/margins": 2.0}, algorithm="dpo")["loss"] == 1.0


def test_last_and_best_values_have_their_steps():
    results = Results()
    for step, reward, loss in ((1, 0.2, 3.0), (2, 0.9, 1.0), (3, 0.9, 2.0), (4, 0.5, 1.5)):
        results.add(step, {"reward": reward, "loss": loss, "lr": 0.1, "name": "x", "flag": True}, "sft")

    assert rows(results) == [
        ("reward", 0.5, 4, 0.9, 2),
        ("loss", 1.5, 4, 1.0, 2),
        ("lr", 0.1, 4, None, None),
    ]


def test_a_value_that_is_not_finite_can_be_the_last_one_and_not_the_best():
    results = Results()
    for step, loss in enumerate((2.0, math.inf, -math.inf, math.nan)):
        results.add(step, {"loss": loss}, None)

    ((_, last, last_step, best, best_step),) = rows(results)
    assert math.isnan(last)
    assert (last_step, best, best_step) == (3, 2.0, 0)


def test_keys_with_a_direction_have_room_beside_any_number_of_others():
    results = Results()
    for number in range(3 * MAXIMUM_KEYS):
        results.add(1, {f"layer {number}/norm": 1.0}, None)
    results.add(2, {"reward": 1.0}, None)

    assert rows(results)[0] == ("reward", 1.0, 2, 1.0, 2)
    assert len(rows(results)) == MAXIMUM_KEYS + 1
    assert results.left_out == MAXIMUM_KEYS


def test_what_is_logged_and_given_value_by_value_is_in_the_result(recorded, monkeypatch):
    monkeypatch.setattr(scalars.sink, "results", Results())
    scope = Scope("test")
    scalars.sink.log(scope, Source.TRAINER, 3, {"eval_accuracy": 0.5})
    with otel_rl.step(4):
        otel_rl.metric("reward", 1.0)
    otel_rl.metric("final/score", 0.7)

    body, left_out = run_span.result()
    assert dict(zip(body[attributes.RL_RUN_RESULT_KEY], body[attributes.RL_RUN_RESULT_LAST], strict=True)) == {
        "eval_accuracy": 0.5,
        "reward": 1.0,
        "final/score": 0.7,
    }
    assert left_out is None


def test_without_values_the_end_has_no_body():
    assert Results().as_columns() == {}
