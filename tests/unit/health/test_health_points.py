"""How many values each rule needs and has: what had not enough data is not called healthy."""

from __future__ import annotations

import pytest
from made_up_runs import HEALTHY, UNOBSERVED, healthy

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code


def verdicts(fed):
    return {verdict.code: verdict for verdict in fed.verdicts()}


def test_a_rule_is_healthy_from_the_value_on_with_which_it_has_as_many_as_it_needs():
    fed = Monitor(defaults())
    needed = {code: verdict.needed for code, verdict in verdicts(fed).items()}
    first = {}
    for step, values in enumerate(healthy(80), 1):
        more = {"aborted": 0.0, "async/staleness_mean": 1.0, "logprob_difference": 0.01}
        more |= {"rewards/accuracies": 0.8, "rewards/margins": 1.0, "unscored_ratio": 0.0}
        more |= {"calls/tool a/failed_share": 0.0, "calls/tool a/seconds": 0.1, "versions_behind": 1.0}
        fed.log(step, {**values, **more})
        fed.step(step, 1.0)
        for code, verdict in verdicts(fed).items():
            assert (verdict.severity == HEALTHY) == (verdict.observed >= verdict.needed), (step, verdict)
            if verdict.severity == HEALTHY:
                first.setdefault(code, verdict.observed)

    assert first == needed
    assert needed[Code.P1_PLATEAU] == 50
    assert needed[Code.P7_SLOW_STEP] == 16
    assert needed[Code.REWARD_COLLAPSE] == 40
    assert needed[Code.LOSS_DIVERGENCE] == 25
    assert needed[Code.ENTROPY_EXPLOSION] == 5
    assert needed[Code.KL_ESTIMATE] == needed[Code.NO_UPDATE] == 20
    assert needed[Code.PREFERENCE] == 60
    assert needed[Code.UNSCORED] == 5


def test_one_group_per_step_needs_eight_windows():
    fed = Monitor(defaults())
    for step in range(1, 64):
        fed.log(step, {"frac_reward_zero_std": float(step % 8 != 0)})
        fed.step(step)
    found = verdicts(fed)[Code.NO_SIGNAL]
    assert (found.severity, found.evidence) == (UNOBSERVED, "too few steps")
    assert (found.observed, found.needed) == (63, 64)

    fed.log(64, {"frac_reward_zero_std": 0.0})
    fed.step(64)
    assert verdicts(fed)[Code.NO_SIGNAL].is_finding


@pytest.mark.parametrize("values", [3, 4])
def test_values_beyond_the_threshold_are_healthy_at_no_time(values):
    fed = Monitor(defaults())
    for step in range(1, values + 1):
        fed.log(step, {"kl": 7.0})
        fed.step(step)

    found = verdicts(fed)[Code.P3_KL_EXPLOSION]
    if values == 3:
        assert (found.severity, found.observed, found.needed) == (UNOBSERVED, 3, 4)
    else:
        assert found.is_finding
