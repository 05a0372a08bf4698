"""A lasting rise is found with its step and its levels; noise, single slow steps and slow first steps are none."""

from __future__ import annotations

import random

import pytest

from otel_rl.report.core.kept_answers import EarlierLooks
from otel_rl.report.core.levels import Rise, rise


def _noisy(level: float, number: int, seed: int = 0, noise: float = 0.1) -> list[float]:
    chance = random.Random(seed)  # noqa: S311
    return [level * chance.lognormvariate(0, noise) for _ in range(number)]


@pytest.mark.parametrize("onset", [5, 14, 35])
def test_a_rise_is_found_at_its_step_with_both_levels(onset: int) -> None:
    found = rise([*_noisy(0.1, onset), *_noisy(0.2, 40 - onset, 1)])
    assert found is not None
    assert abs(found.first - onset) <= 1
    assert found.last == 39
    assert (found.before, found.after) == (pytest.approx(0.1, rel=0.2), pytest.approx(0.2, rel=0.2))


def test_a_share_of_few_calls_a_step_is_the_mean_of_its_steps() -> None:
    found = rise([*[0.0] * 25, *[1 / 3, 2 / 3, 0.0, 1.0, 1 / 3] * 6], factor=1.0, least=0.05, ratio=False)
    assert found is not None
    assert (found.before, found.after) == (0.0, pytest.approx(7 / 15))


def test_a_very_large_rise_is_found_in_a_short_run() -> None:
    found = rise([*_noisy(0.0004, 14), *_noisy(0.15, 6)])
    assert found is not None
    assert found.first == 14


def test_a_rise_that_is_over_has_an_end() -> None:
    found = rise([*_noisy(0.1, 15), *_noisy(0.4, 10, 1), *_noisy(0.1, 15, 2)])
    assert found is not None
    assert (found.first, found.last) == (15, 24)


def test_a_slow_rise_begins_where_it_left_its_level_and_comes_to_its_last_one() -> None:
    steady, rising = _noisy(0.02, 12, noise=0.05), [0.02 + 0.78 * step / 28 for step in range(1, 29)]
    found = rise([*steady, *rising])
    assert found is not None
    assert abs(found.first - 12) <= 3
    assert found.before == pytest.approx(0.02, rel=0.2)
    assert found.after > 0.5


def test_noise_is_no_rise() -> None:
    assert [rise(_noisy(0.1, 60, seed, 0.3)) for seed in range(40)] == [None] * 40


@pytest.mark.parametrize("place", [0, 20, 39])
def test_one_slow_step_is_no_rise(place: int) -> None:
    values = _noisy(0.1, 40)
    values[place] *= 50
    assert rise(values) is None


def test_slow_first_steps_are_no_rise() -> None:
    assert rise([*_noisy(2.0, 3), *_noisy(0.1, 37, 1)]) is None


def test_coming_back_to_what_was_usual_is_no_rise() -> None:
    assert rise([*_noisy(0.2, 20), *_noisy(0.1, 5, 1), *_noisy(0.2, 30, 2)]) is None


def test_a_rise_below_the_factor_is_none() -> None:
    assert rise([*_noisy(0.1, 40, noise=0.01), *_noisy(0.11, 40, 1, 0.01)]) is None


def test_too_few_points_tell_nothing() -> None:
    assert rise([0.1, 0.1, 0.1, 5.0, 5.0]) is None


def test_a_long_series_keeps_its_exact_step() -> None:
    found = rise([*_noisy(0.1, 7000), *_noisy(0.2, 3000, 1)])
    assert found is not None
    assert abs(found.first - 7000) <= 3


def test_a_share_of_calls_rises_in_absolute_numbers() -> None:
    chance = random.Random(0)  # noqa: S311
    shares = [0.0] * 12 + [chance.choice([0.25, 0.5, 0.5, 0.75]) for _ in range(18)]
    found = rise(shares, factor=1.0, least=0.05, ratio=False)
    assert found is not None
    assert found.first == 12
    assert (found.before, found.after) == (0.0, pytest.approx(0.5, abs=0.05))


def test_equal_values_on_both_sides_of_a_step_are_a_rise() -> None:
    found = rise([0.1] * 20 + [0.2] * 20)
    assert found is not None
    assert (found.first, found.before, found.after) == (20, 0.1, 0.2)


def test_a_series_that_grows_is_looked_at_again_only_after_a_while():
    looks, seen = EarlierLooks(fresh=1e6), []

    def look():
        seen.append(1)
        return Rise(10, 19, 1.0, 2.0)

    assert looks.rise("step", 20, look).last == 19
    assert looks.rise("step", 25, look).last == 24, "what went on at the last look goes on"
    assert len(seen) == 1
    looks.rise("step", 15, look)
    assert len(seen) == 2, "a series with fewer points is another one"


def test_a_report_looks_at_everything_anew():
    looks, seen = EarlierLooks(), []
    for points in (20, 25):
        looks.find("value", points, lambda: seen.append(1))
    assert len(seen) == 2
