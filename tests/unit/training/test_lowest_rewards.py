"""The lowest reward that functions give is suspect after a failure, whatever its value."""

from __future__ import annotations

import pytest

import otel_rl
from otel_rl.training import lowest_rewards, trajectories


@pytest.fixture(autouse=True)
def _forgotten():
    lowest_rewards.known.forget()
    yield
    lowest_rewards.known.forget()


def rollout(value, *, fails=False, name="exact"):
    with otel_rl.rollout() as it:
        if value is not None:
            otel_rl.reward(name, value)
        if fails:
            it.fail("timeout")


def suspects(recorded):
    trajectories.record()
    bodies = [record.body for record in recorded.events("rl.trajectories")]
    empty = [None] * 512
    return [
        place
        for body in bodies
        for place, value in enumerate(body.get("rl.rollout.suspect", empty)[: len(body["rl.rollout.status"])])
        if value
    ]


def test_a_failure_value_below_zero_is_suspect_once_it_is_known_as_the_lowest(recorded):
    for value in (1.0, -1.0, 0.0, 1.0, 0.5, -1.0, 1.0, 0.0):
        rollout(value)
    rollout(-1.0, fails=True)
    rollout(0.0, fails=True)
    rollout(1.0, fails=True)
    rollout(-1.0)

    assert suspects(recorded) == [8]


def test_the_lowest_reward_above_zero_is_suspect_too(recorded):
    for value in (0.2, 1.0) * 4:
        rollout(value)
    rollout(0.2, fails=True)

    assert suspects(recorded) == [8]


def test_until_the_lowest_reward_is_known_it_is_zero(recorded):
    rollout(-1.0, fails=True)
    rollout(1.0)
    rollout(0.0, fails=True)

    assert suspects(recorded) == [2]


def test_a_reward_that_is_always_the_same_is_no_lowest_one(recorded):
    for _ in range(10):
        rollout(-1.0, fails=True)

    assert suspects(recorded) == []


def test_a_reward_without_a_floor_has_no_lowest_one(recorded):
    for number in range(20):
        rollout(-float(number), fails=number > 0)

    assert suspects(recorded) == []


def test_each_set_of_functions_has_a_lowest_reward_of_its_own(recorded):
    for value in (-5.0, 1.0) * 4:
        rollout(value, name="penalty")
    rollout(0.0, fails=True, name="other")
    rollout(-5.0, fails=True, name="penalty")

    assert suspects(recorded) == [8, 9]


def test_rewards_that_are_no_numbers_teach_nothing():
    lowest_rewards.known.add(["f"], [float("nan"), None, float("-inf"), *[-1.0, 1.0] * 4])
    assert lowest_rewards.known.lowest(["f"]) == -1.0
