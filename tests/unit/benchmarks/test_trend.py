"""The soak sees a leak of one object per call and no leak in noise."""

from __future__ import annotations

import random

from trend import slope

CALLS = [position * 10_000 for position in range(30)]


def noise(seed: int, bytes_wide: int) -> list[int]:
    pick = random.Random(seed)  # noqa: S311 - repeatable on purpose
    return [pick.randrange(-bytes_wide, bytes_wide) for _ in CALLS]


def test_a_constant_has_no_slope_and_no_uncertainty():
    assert slope(CALLS, [7.0] * len(CALLS)) == {"value": 0.0, "lower_95": 0.0, "upper_95": 0.0}


def test_the_interval_of_noise_contains_zero_nearly_always():
    found = [slope(CALLS, noise(seed, 200_000)) for seed in range(200)]
    contained = sum(each["lower_95"] <= 0 <= each["upper_95"] for each in found)
    assert contained >= 180


def test_a_leak_of_one_object_per_call_stands_out_of_the_noise():
    leaking = [56 * calls + error for calls, error in zip(CALLS, noise(1, 200_000), strict=True)]
    found = slope(CALLS, leaking)
    assert found["lower_95"] > 50
    assert found["upper_95"] < 62


def test_values_that_resemble_their_neighbours_widen_the_interval():
    independent = noise(3, 100_000)
    wandering = sorted(independent[:15]) + sorted(independent[15:], reverse=True)

    def width(values: list[int]) -> float:
        found = slope(CALLS, values)
        return found["upper_95"] - found["lower_95"]

    assert width(wandering) > 1.5 * width(independent)
