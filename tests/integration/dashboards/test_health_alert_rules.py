"""Alerts on the health of a run, as Prometheus evaluates them: they fire, stay quiet and resolve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from promtool_rules import Promtool, alert_at, fires, labels, links, passed, rule_test

from dashboards.lib.names import label_name, prometheus_name
from dashboards.rules.health import HEALTH, HEALTH_ALERTS, WARNING
from dashboards.rules.logged import LOGGED_ALERTS
from otel_rl.health.rule_table import RULES
from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from dashboards.lib.rules import AlertRule

RUN = {label_name(attributes.RL_RUN_ID): "r1"}
CODE = label_name(attributes.RL_HEALTH_CODE)


def code_of(alert: AlertRule) -> str:
    assert alert.only is not None
    return alert.only.value


def health(code: str, values: str, **extra: str) -> dict[str, str]:
    return {prometheus_name(metrics.RL_HEALTH) + labels(**RUN, **extra, **{CODE: code}): values}


def firing(alert: AlertRule, value: int) -> dict[str, Any]:
    description = alert.description.replace("{{ $value }}", str(value))
    summary = alert.summary.replace("{{ $labels.rl_run_id }}", "r1")
    return {
        "exp_labels": {"severity": alert.severity, **RUN, CODE: code_of(alert)},
        "exp_annotations": {
            "summary": summary,
            "description": description,
            **links(alert.name, alert.board),
        },
    }


@pytest.fixture
def of_pack(promtool: Promtool) -> Promtool:
    """Only with the rules about runs with the pack."""
    return replace(promtool, files="[ar]*.yaml")


@pytest.fixture
def of_logged(promtool: Promtool) -> Promtool:
    """Only with the rules about what a trainer logs without the pack."""
    return replace(promtool, files="logged_rules.yaml")


def test_each_rule_of_the_pack_has_one_alert():
    assert sorted(map(code_of, HEALTH_ALERTS)) == sorted(RULES)


def test_an_alert_fires_with_its_rule_stays_quiet_without_and_resolves(of_pack: Promtool):
    """All alerts share one timeline, so that promtool starts once."""
    reported: dict[str, str] = {}
    moments: list[dict[str, Any]] = []
    for alert in HEALTH_ALERTS:
        # 15 s between two values: unobserved, healthy, bad from minute 5 to 15, healthy.
        bad = int(alert.condition.removeprefix(">= "))
        reported |= health(code_of(alert), f"-1x9 0x9 {bad}x39 0x60")
        moments += [alert_at(f"{minute}m", alert) for minute in (*range(1, 6), 17)]
        moments.append(alert_at("10m", alert, firing(alert, bad)))
    passed(of_pack.test(reported, alert_rule_test=moments))


def test_a_warning_of_the_policy_s_entropy_is_not_the_alert_of_its_end(of_pack: Promtool):
    (alert,) = [alert for alert in HEALTH_ALERTS if alert.name == "PolicyCollapsed"]
    series = health(code_of(alert), f"{WARNING}x100")
    passed(of_pack.test(series, alert_rule_test=[alert_at("10m", alert), alert_at("20m", alert)]))


def test_a_resumed_run_whose_two_processes_overlap_is_one_series_with_the_worse_state(of_pack: Promtool):
    series = {
        **health("P9_truncation", "0x40", service_instance_id="old"),
        **health("P9_truncation", "1x40", service_instance_id="new"),
    }
    expected = {"labels": HEALTH.name + labels(**RUN, **{CODE: "P9_truncation"}), "value": 1}
    passed(of_pack.test(series, promql_expr_test=[{"expr": HEALTH.name, "eval_time": "5m", "exp_samples": [expected]}]))


def logged(name: str, values: str) -> dict[str, str]:
    return {name + labels(job="trainer", instance="node1"): values}


def test_a_run_without_the_pack_is_judged_by_the_names_of_its_trainer(of_logged: Promtool):
    (alert,) = [one for one in LOGGED_ALERTS if one.name == "LoggedKLExplosion"]
    expected = {
        "exp_labels": {"severity": "warning", "job": "trainer", "instance": "node1"},
        "exp_annotations": {
            "summary": "KL explosion: job trainer at node1",
            "description": alert.description.replace("{{ $value }}", "7"),
            **links("KLExplosion"),
        },
    }
    moments = [alert_at("9m", alert), alert_at("18m", alert, expected), alert_at("25m", alert)]
    names = {"TRL": "kl", "verl": "actor_kl_loss", "slime": "train_kl_loss"}
    cases = {
        trainer: rule_test(logged(name, "0.02x39 7x40 0.02x60"), alert_rule_test=moments)
        for trainer, name in names.items()
    }
    passed(of_logged.test_each(cases))


def test_the_divergence_of_whole_answers_without_the_pack_fires_nothing(of_logged: Promtool):
    (alert,) = [one for one in LOGGED_ALERTS if one.name == "LoggedKLExplosion"]
    series = logged("train_kl", "25x200") | logged("train_rewards_chosen", "1.5x200")
    passed(of_logged.test(series, alert_rule_test=[alert_at("60m", alert)]))


#: By alert, what a trainer logs: its name, values that are in order, and values of which the alert tells.
LOGGED_CASES = {
    "LoggedEntropyCollapse": ("entropy", "2x200", "2x40 0.01x160"),
    "LoggedAnswersTruncated": ("completions_clipped_ratio", "0.1x200", "0.9x200"),
    "LoggedNoLearningSignal": ("frac_reward_zero_std", "0.3x200", "1x200"),
    "LoggedLearningRateTooHigh": ("learning_rate", "0.00001x200", "0.03x200"),
    "LoggedGradientBlowUp": ("grad_norm", "0.5x200", "0.5x120 50x80"),
    "LoggedSlowSteps": ("step_time", "20x200", "20x120 45x80"),
}


def test_each_rule_for_runs_without_the_pack_fires_and_stays_quiet(of_logged: Promtool):
    cases = {}
    for alert, (name, quiet, bad) in LOGGED_CASES.items():
        cases[f"{alert} stays quiet"] = rule_test(logged(name, quiet), promql_expr_test=fires(alert, (), ("49m",)))
        cases[f"{alert} fires"] = rule_test(logged(name, bad), promql_expr_test=fires(alert, ("49m",), ()))
    passed(of_logged.test_each(cases))
