"""A real job is driven into a failure: gauge in Prometheus, event in Loki; the same job in order is quiet.

The first file by its name: the rules wait for a minute, and test_the_alert_fires.py, the last, finds what they said.
"""

from __future__ import annotations

import pytest
from programs import CUT_FROM, DRIVEN_RUN, HEALTHY_RUN
from support.backends import wait_for

from dashboards.lib.names import prometheus_name
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlHealthCodeValues as Rule

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

CRITICAL, HEALTHY, UNOBSERVED = 2, 0, -1
HEALTH = prometheus_name(metrics.RL_HEALTH)


def _states(backends, run):
    series = backends.promql(f'{HEALTH}{{rl_run_id="{run}"}}')
    return {one["metric"]["rl_health_code"]: int(one["value"][1]) for one in series}


def _changes(backends, run):
    streams = backends.logql(f'{{service_name=~".+"}} | event_name="rl.health.changed" | rl_run_id="{run}"')
    return [stream["stream"] for stream in streams]


def test_the_gauge_says_what_is_wrong_by_code(driven, backends):
    states = wait_for(
        lambda: states if (states := _states(backends, DRIVEN_RUN)).get(Rule.P9_TRUNCATION) == CRITICAL else None,
        "truncation as critical in the gauge",
    )
    assert {state for code, state in states.items() if code != Rule.P9_TRUNCATION} <= {HEALTHY, UNOBSERVED}, states


def test_the_event_has_the_onset_and_the_evidence(driven, backends):
    changes = wait_for(lambda: _changes(backends, DRIVEN_RUN), "changes of the health rules in Loki")
    assert {change["rl_health_code"] for change in changes} == {Rule.P9_TRUNCATION}
    worst = next(change for change in changes if change["rl_health_state"] == "critical")
    assert int(worst["rl_health_onset_iteration"]) == CUT_FROM
    assert worst["rl_health_metric"] == "completions/clipped_ratio"
    assert "completions/clipped_ratio is 100%" in worst["rl_health_evidence"]


def test_the_same_job_in_order_is_healthy(driven, backends):
    states = wait_for(lambda: _states(backends, HEALTHY_RUN), "the gauge of the healthy run")
    assert states[Rule.P9_TRUNCATION] == HEALTHY
    assert set(states.values()) <= {HEALTHY, UNOBSERVED}, states
    assert _changes(backends, HEALTHY_RUN) == []
