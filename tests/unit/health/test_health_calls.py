"""Tools, models and services that fail or are slow, and stale engines, as the leading process sees them."""

from __future__ import annotations

import pytest
from made_up_runs import CRITICAL, HEALTHY, WARNING, is_near, thrown, verdict

from otel_rl.health.calls import CallsOfSteps
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.telemetry.progress import CallTotals

FROM, STEPS = 41, 80


def share(name, before, after, seed=0):
    """Shares of failed calls, ten a step, of which each fails by chance."""
    dice = thrown(seed)
    for step in range(1, STEPS + 1):
        chance = after if step >= FROM else before
        yield {f"calls/{name}/failed_share": sum(dice.random() < chance for _ in range(10)) / 10}


@pytest.mark.parametrize(("after", "severity"), [(0.35, WARNING), (0.9, CRITICAL)])
def test_a_tool_that_begins_to_fail_is_named_with_its_share(after, severity):
    pairs = zip(share("tool good", 0.02, 0.02, 1), share("tool bad", 0.02, after), strict=True)
    values = [{**one, **other} for one, other in pairs]
    found = verdict(values, Code.FAILING_CALLS)

    assert (found.severity, found.metric) == (severity, "calls/tool bad/failed_share")
    assert is_near(found.onset, FROM)
    assert found.evidence.startswith("tool bad fails in ")


@pytest.mark.parametrize("seed", range(10))
def test_a_tool_of_which_few_calls_fail_is_no_finding(seed):
    assert verdict(share("tool x", 0.05, 0.05, seed), Code.FAILING_CALLS).severity == HEALTHY


def durations(name, factor, seed=0, mean=0.2):
    dice = thrown(seed)
    for step in range(1, STEPS + 1):
        yield {f"calls/{name}/seconds": mean * dice.lognormvariate(0, 0.3) * (factor if step >= FROM else 1)}


def test_a_tool_that_becomes_slow_is_named_with_both_times():
    found = verdict(durations("tool search", 5), Code.SLOW_CALLS)

    assert (found.severity, found.metric) == (WARNING, "calls/tool search/seconds")
    assert is_near(found.onset, FROM)
    assert found.evidence.startswith("tool search takes ")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("factor", "mean"), [(1.5, 0.2), (20, 0.001)])
def test_calls_that_are_a_little_slower_or_short_as_ever_are_no_finding(seed, factor, mean):
    assert verdict(durations("tool x", factor, seed, mean), Code.SLOW_CALLS).severity == HEALTHY


@pytest.mark.parametrize(("lag", "severity"), [(lambda step: step - FROM, CRITICAL), (lambda step: step % 4, HEALTHY)])
def test_engines_that_fall_behind_with_each_step_are_stale_and_a_bounded_lag_is_not(lag, severity):
    values = [{"versions_behind": float(max(lag(step), 0))} for step in range(1, STEPS + 1)]
    found = verdict(values, Code.STALE_ENGINE)

    assert found.severity == severity
    if severity == CRITICAL:
        assert is_near(found.onset, FROM + 2)


def test_a_value_is_of_five_calls_and_a_model_s_seconds_are_for_a_hundred_tokens():
    calls = CallsOfSteps()
    assert calls.values({("tool", "a"): CallTotals(4, 4, 0.0, 0)}) == {}
    now = {
        ("tool", "a"): CallTotals(10, 5, 5.0, 5),
        ("model", "chat m"): CallTotals(6, 0, 6.0, 300),
        ("service", "s"): CallTotals(5, 5, 0.0, 0),
        ("engine", "e"): CallTotals(9, 0, 1.0, 9),
    }
    assert calls.values(now) == {
        "calls/tool a/failed_share": 0.5,
        "calls/tool a/seconds": 1.0,
        "calls/model chat m/failed_share": 0.0,
        "calls/model chat m/seconds": 2.0,
        "calls/service s/failed_share": 1.0,
    }
    assert calls.values(now) == {}
