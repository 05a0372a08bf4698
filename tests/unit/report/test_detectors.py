"""Detectors find what happens in a series, and nothing in series that move by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from otel_rl.report.core import detectors, levels

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray
    Family = Callable[[np.random.Generator, int], Array]


def _correlated(alike: float) -> Family:
    def make(chance: np.random.Generator, number: int) -> Array:
        values = chance.standard_normal(number)
        for place in range(1, number):
            values[place] += alike * values[place - 1]
        return values

    return make


#: Series in which nothing happened.
FAMILIES: dict[str, Family] = {
    "independent": lambda chance, n: chance.standard_normal(n),
    "heavy tails": lambda chance, n: chance.standard_t(2, n),
    "log-normal": lambda chance, n: np.log(chance.lognormal(0, 0.5, n)),
    "alike by half": _correlated(0.5),
    "alike by nine tenths": _correlated(0.9),
    "walk": lambda chance, n: np.cumsum(chance.standard_normal(n)),
    "ramp": lambda chance, n: 0.3 * np.arange(n) + chance.standard_normal(n),
    "wave": lambda chance, n: 5 * np.cos(7 * np.arange(n) / n) + chance.standard_normal(n),
    "warm-up": lambda chance, n: 20 * np.exp(-np.arange(n) / 3) + chance.standard_normal(n),
    "slow warm-up": lambda chance, n: 20 * np.exp(-8 * np.arange(n) / n) + chance.standard_normal(n),
    "every fifth": lambda chance, n: 5 * (np.arange(n) % 5 == 0) + chance.standard_normal(n),
    "share of four calls": lambda chance, n: chance.binomial(4, 0.3, n) / 4,
}
_RUNS = 100


def _runs(family: str, number: int) -> list[Array]:
    chance = np.random.default_rng(1)
    return [FAMILIES[family](chance, number) for _ in range(_RUNS)]


@pytest.mark.parametrize("number", [10, 24, 60, 200])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_curve_that_moves_by_itself_has_no_jump_of_which_it_is_warned(family: str, number: int) -> None:
    jumps = [jump.deviations for values in _runs(family, number) for jump in detectors.jumps(values)]
    assert [deviations for deviations in jumps if deviations >= 7] == []
    assert len(jumps) <= 0.2 * _RUNS, "those of which a notice may be made are few"


@pytest.mark.parametrize("number", [24, 60, 200])
@pytest.mark.parametrize("family", ["independent", "heavy tails", "log-normal", "every fifth", "share of four calls"])
def test_a_level_that_stays_does_not_rise(family: str, number: int) -> None:
    draw_in = np.asarray if family.startswith("share") else levels.drawn_in
    found = [levels.changes(draw_in(values)) for values in _runs(family, number)]
    assert sum(map(bool, found)) <= 0.02 * _RUNS


@pytest.mark.parametrize(("size", "share"), [(10, 0.9), (5, 0.5)])
@pytest.mark.parametrize("number", [24, 60, 200])
def test_a_jump_is_found_at_its_step(number: int, size: float, share: float) -> None:
    chance, found = np.random.default_rng(2), 0
    for _ in range(_RUNS):
        onset = int(chance.integers(number // 4, number - number // 6))
        values = chance.standard_normal(number)
        values[onset:] += size
        found += any(abs(jump.first - onset) <= 2 for jump in detectors.jumps(values))
    assert found >= share * _RUNS


def test_a_value_that_comes_from_a_cache_stands_still_since_its_step() -> None:
    values = [*np.random.default_rng(0).uniform(0.4, 0.7, 24), *[0.531] * 20]
    found = detectors.still(values)
    assert found is not None
    assert (found.first, found.value) == (24, 0.531)
    assert found.varied == (min(values[:24]), max(values[:24]))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0, 2.0, 3.0] * 10, id="moves to the end"),
        pytest.param([*range(20), *[20.0] * 7], id="not long enough"),
        pytest.param([0.0] * 20 + [1.0] * 20, id="two values, a schedule"),
    ],
)
def test_what_moves_or_is_set_does_not_stand_still(values: list[float]) -> None:
    assert detectors.still(values) is None


@pytest.mark.parametrize("onset", [0, 10, 30, 45])
def test_growth_is_found_with_its_begin_and_how_much_it_is_a_step(onset: int) -> None:
    values = 500 + np.random.default_rng(0).normal(0, 2, 60)
    values[onset:] += 6 * np.arange(60 - onset)
    found = detectors.growth(values)
    assert found is not None
    assert abs(found.first - onset) <= 8
    assert found.slope == pytest.approx(6, rel=0.2)


def test_what_doubles_again_and_again_grows_from_the_first_time_on() -> None:
    values = 120 * np.random.default_rng(0).uniform(0.97, 1.03, 60)
    values[22:] *= 2.0 ** ((np.arange(60 - 22) + 3) // 3)
    found = detectors.growth(values)
    assert found is not None
    assert abs(found.first - 22) <= 1
    assert found.before == pytest.approx(120, rel=0.05)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([*[1.0] * 30, *[5.0] * 30], id="one jump"),
        pytest.param([*range(30), *range(30, 0, -1)], id="comes back"),
        pytest.param([1.0] * 60, id="nothing"),
        pytest.param([1.0, 2.0, 3.0], id="three points"),
    ],
)
def test_what_jumps_or_comes_back_does_not_grow(values: list[float]) -> None:
    assert detectors.growth(values) is None


def test_a_cost_of_every_third_step_is_found_with_where_it_began() -> None:
    values = np.random.default_rng(0).uniform(0.02, 0.06, 60)
    values[21::3] += 0.8
    found = detectors.recurrence(range(1, 61), values)
    assert found is not None
    assert (found.period, found.stretches[0]) == (3, (21, 21))
    assert found.extra == pytest.approx(0.8 * 13, rel=0.05)


def test_a_period_counts_steps_though_only_some_are_recorded() -> None:
    steps = sorted({*range(1, 65), *range(64, 400, 4), *range(65, 400, 16)})
    values = [0.5 if step % 16 == 1 else 0.01 for step in steps]
    found = detectors.recurrence(steps, values)
    assert found is not None
    assert found.period == 16


def test_bursts_are_found_with_their_steps() -> None:
    values = np.random.default_rng(0).uniform(0.04, 0.06, 60)
    bursts = ((15, 19), (30, 34), (45, 49))
    for first, last in bursts:
        values[first : last + 1] += 0.2
    found = detectors.recurrence(range(60), values)
    assert found is not None
    assert (found.period, found.stretches) == (None, bursts)


@pytest.mark.parametrize("family", ["independent", "log-normal", "ramp", "wave", "warm-up", "walk"])
def test_noise_slopes_and_one_level_do_not_come_and_go(family: str) -> None:
    found = [detectors.recurrence(range(60), np.exp(values / 5)) for values in _runs(family, 60)]
    assert sum(one is not None for one in found) <= 0.02 * _RUNS
    assert detectors.recurrence(range(60), [*[0.1] * 30, *[0.8] * 30]) is None


@pytest.mark.parametrize("number", range(12))
def test_series_of_few_points_and_of_equal_ones_raise_nothing(number: int) -> None:
    for values in ([1.0] * number, [0.0] * number, list(map(float, range(number)))):
        detectors.jumps(values)
        detectors.still(values)
        detectors.growth(values)
        detectors.recurrence(range(number), values)
        levels.rise(values)
