"""False alarms over many noisy healthy runs, and what is missed of failures in such runs."""

from __future__ import annotations

import noisy_runs
import pytest
from made_up_runs import CRITICAL, is_near, monitor

from otel_rl.semconv.attributes import RlHealthCodeValues as Code

RUNS = 150
#: Runs driven into each failure.
DRIVEN = 25
ONSET = 30


def findings(run):
    values, times = run
    return [one for one in monitor(values, lambda step: times[step - 1]).verdicts() if one.is_finding]


def test_many_noisy_healthy_runs_raise_nothing_critical_and_hardly_a_warning():
    found = [one for seed in range(RUNS) for one in findings(noisy_runs.healthy(seed))]

    assert [one for one in found if one.severity == CRITICAL] == []
    assert len(found) <= RUNS * 0.05, [(one.code, one.evidence) for one in found]


@pytest.mark.parametrize("code", noisy_runs.FAILURES)
def test_a_failure_in_a_noisy_run_is_named_with_its_onset(code):
    for seed in range(DRIVEN):
        found = [one for one in findings(noisy_runs.driven(code, seed, onset=ONSET)) if one.code == code]
        assert found, f"seed {seed}: nothing found"
        assert is_near(found[0].onset, ONSET), f"seed {seed}: {found[0]}"


def test_a_failing_run_raises_few_rules_beside_the_right_one():
    others = [
        one
        for code in noisy_runs.FAILURES
        for seed in range(DRIVEN)
        for one in findings(noisy_runs.driven(code, seed))
        if one.code != code and one.severity == CRITICAL
    ]

    # Without a signal the reward of these runs is zero.
    assert {one.code for one in others} <= {Code.P3_KL_EXPLOSION, Code.REWARD_COLLAPSE}
