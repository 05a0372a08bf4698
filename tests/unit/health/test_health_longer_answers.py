"""Step times beside answers that grow: longer answers explain longer steps, and nothing beyond."""

from __future__ import annotations

import math

import pytest
from made_up_runs import is_near, thrown

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

SEEDS = 20


def growing(seed, growth, steps, *, slow_from=None, every=1, slower=2.0):
    """What the rule says where a step takes 0.2 s and 10 ms a token, and ``slower`` times that from a step on."""
    dice, fed, lengths = thrown(seed), Monitor(defaults()), []
    for step in range(1, steps + 1):
        lengths.append(200 * growth ** (step / steps) * math.exp(dice.gauss(0, 0.05)))
        if step % every == 0:
            values = {
                "completions/mean_length": sum(lengths[-every:]) / every,
                "reward": 0.2 + 0.5 * step / steps + dice.gauss(0, 0.05),
                "reward_std": 0.3,
                "loss": 0.1 + dice.gauss(0, 0.01),
            }
            fed.log(step, values, step - every + 1)
        is_slow = slow_from is not None and step >= slow_from
        fed.step(step, (0.2 + 0.01 * lengths[-1]) * (slower if is_slow else 1.0))
    return next(one for one in fed.verdicts() if one.code == Code.P7_SLOW_STEP)


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("steps", [100, 200, 400])
@pytest.mark.parametrize("growth", [1.5, 3, 5, 8])
def test_steps_that_grow_with_the_answers_are_not_slow(growth, steps, every):
    found = [growing(seed, growth, steps, every=every) for seed in range(SEEDS)]

    assert [one.evidence for one in found if one.is_finding] == []


@pytest.mark.parametrize("growth", [3, 5, 8])
def test_steps_that_become_slow_beside_growing_answers_are_found(growth):
    for seed in range(SEEDS):
        found = growing(seed, growth, 200, slow_from=120)
        assert found.is_finding
        assert is_near(found.onset, 120), found


def test_a_time_per_token_that_creeps_up_beside_growing_answers_is_found():
    """The reference follows the answers, not the rise."""
    dice, fed = thrown(), Monitor(defaults())
    for step in range(1, 401):
        length = 200 + 1.0 * step
        fed.log(step, {"completions/mean_length": length})
        fed.step(step, length * 0.01 * (1 + step / 100) * dice.uniform(0.95, 1.05))

    assert next(one for one in fed.verdicts() if one.code == Code.P7_SLOW_STEP).is_finding


def test_answers_that_become_short_again_leave_the_lowest_time_as_the_reference():
    """Its length is that of the same steps."""
    fed = Monitor(defaults())
    for step in range(1, 301):
        length = 800 - 2 * step if step < 250 else 300
        fed.log(step, {"completions/mean_length": length})
        fed.step(step, length * 0.01 * (2.5 if step >= 260 else 1.0))
    found = next(one for one in fed.verdicts() if one.code == Code.P7_SLOW_STEP)

    assert found.is_finding
    assert is_near(found.onset, 260)
