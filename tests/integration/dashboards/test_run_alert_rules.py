"""Alerts about a run that hangs, dies or fails, as Prometheus evaluates them: they fire, stay quiet and resolve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import promtool_rules
import pytest
from promtool_rules import Promtool, alert_at, labels, links, passed, rule_test

from dashboards.lib.names import label_name, prometheus_name
from dashboards.rules.runs import (
    EVENTS,
    RANK_GONE,
    RUN_FAILED,
    RUN_HUNG,
    RUN_SILENT,
    RUN_START,
    TELEMETRY_DROPPED,
    UNDELIVERED,
)
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlRoleValues as Role
from otel_rl.semconv.attributes import RlRunEndStatusValues as Status

if TYPE_CHECKING:
    from dashboards.lib.rules import AlertRule
    from otel_rl.semconv.definitions import MetricDefinition

RUN, RANK, ROLE, STATUS = map(
    label_name, (attributes.RL_RUN_ID, attributes.RL_RANK, attributes.RL_ROLE, attributes.RL_RUN_END_STATUS)
)
INSTANCE = "instance"
ALERTS = (RUN_HUNG, RANK_GONE, RUN_SILENT, RUN_FAILED, TELEMETRY_DROPPED)
#: Every ten minutes of two hours.
ALWAYS = tuple(f"{minute}m" for minute in range(5, 120, 10))


@pytest.fixture
def promtool(promtool: Promtool) -> Promtool:
    """Only with the rules about runs and their learning."""
    return replace(promtool, files="[ar]*.yaml")


def series(metric: MetricDefinition, values: str, **who: str) -> dict[str, str]:
    """One value per 15 s, so 4 a minute; labels that are empty are left out, as Prometheus does."""
    told = {name: value for name, value in {RUN: "r1", ROLE: Role.TRAINER, **who}.items() if value}
    return {prometheus_name(metric) + labels(**told): values}


def process(
    rank: str, minutes: int, end: str | None = None, *, begin: int = 0, process: str = "a", **who: str
) -> dict[str, str]:
    """A process that reports from a minute to another, and with its last export says how it ended, or was killed."""
    who = {RANK: rank, INSTANCE: f"{rank or 0}{process}", **who}
    before = f"_x{4 * begin - 1} " if begin else ""
    lives = series(metrics.RL_RUN_ENDED, f"{before}0x{4 * (minutes - begin) - 1} _x1200", **who)
    if end is None:
        return lives
    return {**lives, **series(metrics.RL_RUN_ENDED, f"_x{4 * minutes - 1} 1 _x1200", **who, **{STATUS: end})}


def hang(rank: str, values: str, **who: str) -> dict[str, str]:
    return series(metrics.RL_HANG_ACTIVE, values, **{RANK: rank, **who})


def firing(alert: AlertRule, value: str, **more: str) -> dict[str, Any]:
    known = {RUN: "r1", **more}
    summary, description = alert.summary, alert.description
    for name, text in known.items():
        summary = summary.replace(f"{{{{ $labels.{name} }}}}", text)
        description = description.replace(f"{{{{ $labels.{name} }}}}", text)
    for form in ("{{ $value | humanizePercentage }}", "{{ $value | humanize }}", "{{ $value }}"):
        description = description.replace(form, value)
    return {
        "exp_labels": {"severity": alert.severity, **known},
        "exp_annotations": {"summary": summary, "description": description, **links(alert.name, alert.board)},
    }


def fires(promtool: Promtool, alert: AlertRule, told: dict[str, str], *, at: tuple[str, ...], not_at: tuple[str, ...]):
    """Whether it fires for the run."""
    passed(promtool.test(told, promql_expr_test=asked(alert, at, not_at)))


def asked(alert: AlertRule, at: tuple[str, ...], not_at: tuple[str, ...]) -> list[dict[str, Any]]:
    return promtool_rules.fires(alert.name, at, not_at, **{RUN: "r1"})


# -- hangs -------------------------------------------------------------------------------------------------------------


def test_a_hang_of_all_ranks_fires_while_it_lasts(promtool: Promtool):
    told = {**hang("0", "0x40 1x80 0x40"), **hang("1", "0x42 1x78 0x40")}
    expected = firing(RUN_HUNG, "100%", **{ROLE: Role.TRAINER})
    moments = [alert_at("10m", RUN_HUNG), alert_at("14m", RUN_HUNG, expected), alert_at("29m", RUN_HUNG, expected)]
    passed(promtool.test(told, alert_rule_test=[*moments, alert_at("32m", RUN_HUNG)]))


def test_the_trainers_hang_although_workers_of_another_role_go_on(promtool: Promtool):
    told = {**hang("0", "0x40 1x80"), **hang("0", "0x120", **{ROLE: Role.ROLLOUT})}
    fires(promtool, RUN_HUNG, told, at=("14m", "29m"), not_at=("9m",))


def test_a_rank_whose_metrics_stop_in_a_hang_of_the_others_does_not_keep_it_quiet(promtool: Promtool):
    """It holds the GIL, so its last value stays 0; that is stale after five minutes."""
    fires(promtool, RUN_HUNG, {**hang("0", "0x40 1x80"), **hang("1", "0x40 _x80")}, at=("18m",), not_at=("12m",))


def test_a_rank_in_an_evaluation_on_another_node_excuses_those_that_wait_for_it(promtool: Promtool):
    fires(promtool, RUN_HUNG, {**hang("0", "0x400"), **hang("1", "0x40 1x320 0x40")}, at=(), not_at=ALWAYS[:6])


# -- deaths ------------------------------------------------------------------------------------------------------------


def test_ranks_that_are_killed_while_others_report_are_gone_until_they_are_back(promtool: Promtool):
    told = {
        **process("0", 300),
        **process("1", 20),
        **process("2", 20),
        **process("1", 300, begin=100, process="b"),
        **process("2", 300, begin=100, process="b"),
    }
    expected = firing(RANK_GONE, "2")
    moments = [("20m", ()), ("24m", ()), ("28m", (expected,)), ("99m", (expected,)), ("105m", ())]
    passed(promtool.test(told, alert_rule_test=[alert_at(time, RANK_GONE, *alerts) for time, alerts in moments]))


def test_a_rank_of_another_role_with_the_same_number_does_not_hide_a_death(promtool: Promtool):
    told = {**process("0", 300), **process("3", 20), **process("3", 300, **{ROLE: Role.ROLLOUT})}
    fires(promtool, RANK_GONE, told, at=("28m", "100m"), not_at=("20m",))


ENDS = (Status.COMPLETED, Status.STOPPED)


def test_a_job_that_its_launcher_ends_because_a_rank_was_killed_does_not_hide_that(promtool: Promtool):
    """An OOM kill on the only node: torchrun stops the others within seconds, and nothing reports any more."""
    questions = asked(RANK_GONE, ("28m", "100m"), ("20m",)) + asked(RUN_SILENT, (), ALWAYS)
    cases = {
        status: rule_test({**process("0", 20, status), **process("1", 20)}, promql_expr_test=questions)
        for status in ENDS
    }
    passed(promtool.test_each(cases))


def test_the_end_of_the_run_resolves_the_alert_about_its_ranks(promtool: Promtool):
    questions = asked(RANK_GONE, ("28m", "58m"), ("62m", "100m"))
    cases = {
        status: rule_test({**process("0", 60, status), **process("1", 20)}, promql_expr_test=questions)
        for status in ENDS
    }
    passed(promtool.test_each(cases))


def test_the_end_of_a_rollout_worker_does_not_resolve_it(promtool: Promtool):
    told = {**process("0", 300), **process("1", 20), **process("0", 60, Status.COMPLETED, **{ROLE: Role.ROLLOUT})}
    fires(promtool, RANK_GONE, told, at=("28m", "62m", "100m"), not_at=("20m",))


def test_all_ranks_killed_at_once_are_a_silent_run_until_it_reports_again(promtool: Promtool):
    told = {
        **process("0", 20),
        **process("1", 20),
        **process("0", 300, begin=90, process="b"),
        **process("1", 300, begin=90, process="b"),
    }
    silent = asked(RUN_SILENT, ("28m", "89m"), ("20m", "24m", "95m", "110m"))
    passed(promtool.test(told, promql_expr_test=[*silent, *asked(RANK_GONE, (), ALWAYS)]))


def test_a_program_without_ranks_that_is_killed_is_a_silent_run(promtool: Promtool):
    fires(promtool, RUN_SILENT, process("", 20, **{ROLE: ""}), at=("28m", "110m"), not_at=("24m",))


def test_a_silent_run_is_forgotten_after_a_day(promtool: Promtool):
    fires(replace(promtool, every="2m"), RUN_SILENT, process("0", 20), at=("40m", "1430m"), not_at=("20m", "1480m"))


NOBODY_IS_WOKEN = {
    "all ranks end": {**process("0", 20, Status.COMPLETED), **process("1", 20, Status.COMPLETED)},
    "all ranks are stopped": {**process("0", 20, Status.STOPPED), **process("1", 20, Status.STOPPED)},
    "a driver ends and its workers are killed by that": {
        **process("", 20, Status.COMPLETED, **{ROLE: ""}),
        **process("0", 20),
        **process("1", 20),
    },
    "a program of no run ends": process("0", 20, **{RUN: ""}),
    "a rank ends before the others": {**process("0", 300), **process("1", 20, Status.COMPLETED)},
    "a rank comes later": {**process("0", 300), **process("1", 300, begin=100)},
    "another run is killed": {**process("0", 300), **process("0", 20, **{RUN: "r2"})},
    "exports are missing for some minutes": {
        **process("0", 300),
        **series(metrics.RL_RUN_ENDED, "0x80 _x16 0x1200", **{RANK: "1"}),
    },
    "a rank says its role only after its first export": {
        **process("0", 20, **{ROLE: ""}),
        **process("0", 300, begin=20),
    },
    "a run ends and is resumed": {**process("0", 20, Status.STOPPED), **process("0", 300, begin=60, process="b")},
    "an evaluation, a checkpoint or a wait for rollouts takes hours": {
        **process("0", 300),
        **process("1", 300),
        **hang("0", "0x1200"),
        **hang("1", "0x1200"),
        **series(metrics.RL_LOOP_CURRENT, "0+1x80 80x1120", **{RANK: "0"}),
    },
}


def test_nobody_is_woken_without_reason(promtool: Promtool):
    query = f'count(ALERTS{{{RUN}!="r2"}})'
    questions = [{"expr": query, "eval_time": at, "exp_samples": []} for at in ALWAYS]
    cases = {when: rule_test(told, promql_expr_test=questions) for when, told in NOBODY_IS_WOKEN.items()}
    passed(promtool.test_each(cases))


# -- failures, losses, starts ------------------------------------------------------------------------------------------


def test_an_exception_that_ends_all_ranks_is_a_failure_and_no_death(promtool: Promtool):
    told = {**process("0", 20, Status.FAILED), **process("1", 20, Status.FAILED)}
    moments = [("19m", ()), ("22m", (firing(RUN_FAILED, "2"),)), ("60m", (firing(RUN_FAILED, "2"),)), ("85m", ())]
    failed = [alert_at(time, RUN_FAILED, *alerts) for time, alerts in moments]
    others = asked(RANK_GONE, (), ALWAYS) + asked(RUN_SILENT, (), ALWAYS)
    passed(promtool.test(told, alert_rule_test=failed, promql_expr_test=others))


def test_a_failure_is_over_when_the_rank_reports_again(promtool: Promtool):
    told = {**process("0", 20, Status.FAILED), **process("0", 300, begin=30, process="b")}
    fires(promtool, RUN_FAILED, told, at=("22m",), not_at=("19m", "33m", "100m"))


SIGNAL, REASON = label_name(attributes.RL_TELEMETRY_SIGNAL), label_name(attributes.RL_TELEMETRY_DROP_REASON)


def dropped(reason: str, values: str) -> dict[str, str]:
    return series(metrics.RL_TELEMETRY_DROPPED, values, **{RANK: "0", SIGNAL: "traces", REASON: reason})


def test_what_did_not_arrive_is_told_with_signal_and_reason_and_for_a_while(promtool: Promtool):
    told: dict[str, str] = {}
    alerts = []
    for reason in UNDELIVERED:
        told |= dropped(reason, "_x40 12x400")
        alerts.append(firing(TELEMETRY_DROPPED, "12", **{SIGNAL: "traces", REASON: reason}))
    moments = [("9m", ()), ("12m", alerts), ("27m", ())]
    passed(promtool.test(told, alert_rule_test=[alert_at(time, TELEMETRY_DROPPED, *found) for time, found in moments]))
    assert EVENTS == "15m"


def test_further_drops_are_told_too(promtool: Promtool):
    fires(promtool, TELEMETRY_DROPPED, dropped("queue_full", "5x200 5+1x40"), at=("55m",), not_at=("45m",))


def test_turns_of_ranks_and_limits_of_values_are_no_loss(promtool: Promtool):
    told: dict[str, str] = {}
    for reason in ("rank_turn", "cardinality", "non_finite"):
        told |= dropped(reason, "_x40 0+9x200")
    fires(promtool, TELEMETRY_DROPPED, told, at=(), not_at=("12m", "30m"))


def test_runs_are_sorted_by_their_start_and_not_by_their_id(promtool: Promtool):
    status = metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS
    told = {
        **series(status, "1x800", **{RUN: "f00", RANK: "0"}),
        **series(status, "_x40 1x100", **{RUN: "a11", RANK: "0"}),
        **series(status, "_x80 1x800", **{RUN: "c22", RANK: "0"}),
        **series(status, "_x120 1x800", **{RUN: "c22", RANK: "1"}),
    }
    samples = [
        {"labels": labels(**{RUN: run}), "value": start} for run, start in (("c22", 1200), ("a11", 600), ("f00", 0))
    ]
    query = f"sort_desc(max by ({RUN}) (last_over_time({RUN_START.name}[3h])))"
    # promtool compares without order; the values are what is sorted by.
    passed(promtool.test(told, promql_expr_test=[{"expr": query, "eval_time": "60m", "exp_samples": samples}]))


def test_every_alert_about_a_run_is_tested_here():
    from dashboards.rules.runs import GROUPS

    assert {rule for group in GROUPS for rule in group.rules} == set(ALERTS)
