"""Curves that look like a failure and are what learning aims at."""

from __future__ import annotations

import math

import pytest
from made_up_runs import CRITICAL, WARNING, findings, run, thrown, verdict

from otel_rl.semconv.attributes import RlHealthCodeValues as Code

SEEDS = range(10)


def learning(seed, steps=200, **changed):
    """A reward that rises to 0.99 within some tens of steps."""
    dice = thrown(seed)
    noise = [dice.gauss(0, 0.005) for _ in range(steps + 1)]
    solved = {
        "reward": lambda step: 0.99 - 0.79 * math.exp(-step / 20) + noise[step],
        "reward_std": lambda step: 0.4 * math.exp(-step / 30),
        "zero": lambda step: 1 - 0.9 * math.exp(-step / 20),
    }
    return run(steps, seed, **{**solved, **changed})


@pytest.mark.parametrize("seed", SEEDS)
def test_an_entropy_that_is_low_because_the_task_is_solved_is_no_collapse(seed):
    assert findings(learning(seed, entropy=lambda step: 0.03 + 0.37 * math.exp(-step / 20))) == {}


def test_an_entropy_that_is_gone_is_told_even_where_the_task_is_solved():
    found = verdict(learning(0, entropy=lambda step: 2.0 if step < 60 else 0.0005), Code.P4_ENTROPY_COLLAPSE)

    assert (found.severity, found.onset) == (CRITICAL, 60)


def test_an_entropy_that_falls_within_few_steps_is_told_even_where_the_task_is_solved():
    found = verdict(learning(0, entropy=lambda step: 2.0 if step < 60 else 0.05), Code.P4_ENTROPY_COLLAPSE)

    assert (found.severity, found.onset) == (WARNING, 60)


def test_an_entropy_that_collapses_before_the_task_is_solved_is_told():
    found = verdict(
        run(reward=lambda _: 0.3, entropy=lambda step: 2.0 if step < 25 else 0.05), Code.P4_ENTROPY_COLLAPSE
    )

    assert found.severity == WARNING


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_that_become_short_while_the_reward_rises_are_not_garbled(seed):
    def shorter(step):
        return 60 + 740 * math.exp(-step / 25)

    def rising(step):
        return 0.2 + 0.7 * (1 - math.exp(-step / 60)) + dice.gauss(0, 0.02)

    dice = thrown(seed)
    assert findings(run(200, seed, length=shorter, reward=rising)) == {}


@pytest.mark.parametrize(("length", "severity"), [(8.0, WARNING), (1.0, CRITICAL)])
def test_answers_that_become_nearly_empty_at_once_are_garbled_whatever_the_reward(length, severity):
    def rising(step):
        return 0.2 + 0.003 * step + dice.gauss(0, 0.02)

    dice = thrown(0)
    values = run(200, length=lambda step: 300.0 if step < 100 else length, reward=rising)
    found = verdict(values, Code.P8_GARBLED_OUTPUT)

    assert (found.severity, found.until) == (severity, None)
    assert abs(found.onset - 100) <= 3


def test_answers_that_become_short_bit_by_bit_without_a_rising_reward_are_garbled():
    dice = thrown(0)
    values = run(200, length=lambda step: 10 + 740 * math.exp(-step / 25), reward=lambda _: 0.3 + dice.gauss(0, 0.02))

    assert verdict(values, Code.P8_GARBLED_OUTPUT).severity == WARNING
