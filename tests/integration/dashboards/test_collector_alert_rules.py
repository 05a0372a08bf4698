"""The alerts about collectors as Prometheus evaluates them: each fires, stays quiet and resolves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from promtool_rules import Promtool, RuleTest, alert_at, fires, labels, links, passed, rule_test

from dashboards.lib import collector
from dashboards.lib.names import label_name, prometheus_name
from dashboards.rules.collector import ALERTS
from dashboards.rules.collector_signals import DISK_ROOM, LOST, PUSHED_BACK, QUEUE_AGE

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

BY_NAME = {alert.name: alert for alert in ALERTS}
AGENT = {"job": collector.SERVICE, label_name(collector.ROLE): "agent", "instance": "node-1:4317"}
QUEUE = {"exporter": "durable_otlp_grpc/gateway_1", "data_type": "traces"}
GIGABYTE = 10**9
#: Present in every case, as it is in reality; one value per 15 s, so 4 a minute.
ALIVE = "15+15x1000"


def series(metric: MetricDefinition, values: str, **more: str) -> dict[str, str]:
    return {prometheus_name(metric) + labels(**{**AGENT, **more}): values}


def disk(free: str, size: str = "0x1000", queued: str = "0x1000") -> dict[str, str]:
    return {
        **series(collector.FOLDER_FREE, free, folder="queue"),
        **series(collector.FOLDER_SIZE, size, folder="queue"),
        **series(collector.QUEUE_SIZE, queued, **QUEUE),
        **series(collector.QUEUE_CAPACITY, f"{GIGABYTE}x1000", **QUEUE),
    }


@dataclass(frozen=True)
class Case:
    """What is reported, and when the alert fires and does not; one value of a series per 15 s."""

    series: dict[str, str]
    fires: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    alive: str = ALIVE


_FULL = series(collector.QUEUE_CAPACITY, "100x1000", **QUEUE)
_SHARE = {"policy": "rest"}
_SECRETS = {"class": "api_key", "signal": "logs"}

FIRE_AND_RESOLVE = {
    # Silent from minute 10 until it reports again.
    "CollectorAbsent": Case({}, ("17m", "80m", "300m"), ("9m", "315m"), alive="15+15x40 _x1200 15+15x80"),
    # It begins anew every five minutes from minute 30 to minute 60.
    "CollectorRestarting": Case({}, ("60m",), ("29m", "130m"), alive="15+15x120 " + "15+15x20 " * 6 + "15+15x400"),
    "CollectorBackendUnreachable": Case(
        series(collector.UNHEALTHY, "0x40 1x40 0x40", **QUEUE), ("15m",), ("9m", "11m", "22m")
    ),
    "CollectorQueueOld": Case(series(collector.OLDEST, "0x40 600+15x80 0x40", **QUEUE), ("25m",), ("9m", "12m", "32m")),
    "CollectorQueueFilling": Case(
        {**_FULL, **series(collector.QUEUE_SIZE, "10x40 60x40 10x40", **QUEUE)}, ("15m",), ("9m", "22m")
    ),
    "CollectorDiskTooSmall": Case(
        disk(f"{5 * GIGABYTE}x40 {GIGABYTE // 2}x40 {5 * GIGABYTE}x40"), ("15m",), ("9m", "22m")
    ),
    "CollectorLosingData": Case(series(collector.OVERFLOW, "0x40 0+5x4 20x200", **QUEUE), ("14m",), ("9m", "30m")),
    "CollectorRefusing": Case(
        series(collector.REFUSED[0], "0x40 0+5x40 200x200", receiver="otlp", transport="grpc"), ("20m",), ("12m", "37m")
    ),
    "CollectorOutOfMemory": Case(
        series(collector.LIMITED[0], "0x40 0+5x40 200x200", processor="memory_limiter"), ("15m",), ("9m", "37m")
    ),
    "CollectorDeadLetters": Case(
        series(collector.DEAD_LETTERS, "_x40 20x200", **QUEUE, reason="refused"), ("14m",), ("9m", "30m")
    ),
    "CollectorRedactionJump": Case(
        series(collector.MASKED, "0+0.01x1000 10+2x100 210+0.01x400", **_SECRETS), ("262m",), ("240m", "320m")
    ),
    "CollectorDroppedByRedaction": Case(
        series(collector.DROPPED_BY_REDACTION, "_x40 1x200", reason="cost", signal="logs"),
        ("14m",),
        ("9m", "30m"),
    ),
    "CollectorSamplingCollapsed": Case(
        series(collector.BUDGET_SHARE, "10x40 1x80 10x80", **_SHARE), ("25m",), ("15m", "40m")
    ),
}

QUIET = {
    "an agent that is just started": ("CollectorAbsent", Case({}, quiet=("1m", "5m", "60m"))),
    "two restarts in an hour": (
        "CollectorRestarting",
        Case({}, quiet=("60m", "90m"), alive="15+15x120 15+15x20 15+15x300"),
    ),
    "one failed minute": (
        "CollectorBackendUnreachable",
        Case(series(collector.UNHEALTHY, "0x40 1x4 0x80", **QUEUE), quiet=("11m", "13m", "15m")),
    ),
    "a queue that drains within minutes": (
        "CollectorQueueOld",
        Case(series(collector.SEND_LAG, "1x40 700-15x40 1x80", **QUEUE), quiet=("12m", "16m", "25m")),
    ),
    "a queue in ordinary use": (
        "CollectorQueueFilling",
        Case({**_FULL, **series(collector.QUEUE_SIZE, "5x40 40x40", **QUEUE)}, quiet=("9m", "19m")),
    ),
    "a queue file that has its largest size already": (
        "CollectorDiskTooSmall",
        Case(disk(f"{GIGABYTE // 2}x200", size=f"{GIGABYTE}x200"), quiet=("10m", "40m")),
    ),
    "a gateway whose queues are in memory": (
        "CollectorDiskTooSmall",
        Case({**_FULL, **series(collector.QUEUE_SIZE, "90x200", **QUEUE)}, quiet=("10m", "40m")),
    ),
    "everything is delivered": (
        "CollectorLosingData",
        Case(series(collector.SENT[0], "0+500x200", exporter="durable_otlp_grpc/gateway_1"), quiet=("10m", "40m")),
    ),
    "secrets at their usual rate": (
        "CollectorRedactionJump",
        Case(series(collector.MASKED, "0+5x1000", **_SECRETS), quiet=("120m", "240m")),
    ),
    "a class of which hardly any are found": (
        "CollectorRedactionJump",
        Case(series(collector.MASKED, "0x900 0+0.5x60", **_SECRETS), quiet=("230m", "238m")),
    ),
    "half the share": (
        "CollectorSamplingCollapsed",
        Case(series(collector.BUDGET_SHARE, "10x40 5x200", **_SHARE), quiet=("25m", "60m")),
    ),
}


@pytest.fixture
def promtool(promtool: Promtool) -> Promtool:
    """Only with the rules about collectors."""
    return replace(promtool, files="collector_*.yaml")


def asked(name: str, case: Case) -> RuleTest:
    reported = {**series(collector.UPTIME, case.alive), **case.series}
    return rule_test(reported, promql_expr_test=fires(name, case.fires, case.quiet))


def test_every_alert_has_a_case():
    assert FIRE_AND_RESOLVE.keys() == BY_NAME.keys()
    assert {name for name, _ in QUIET.values()} <= BY_NAME.keys()


def test_every_alert_fires_and_resolves(promtool: Promtool):
    passed(promtool.test_each({name: asked(name, case) for name, case in FIRE_AND_RESOLVE.items()}))


def test_alerts_stay_quiet(promtool: Promtool):
    passed(promtool.test_each({why: asked(name, case) for why, (name, case) in QUIET.items()}))


def test_requests_refused_before_they_are_decoded_are_refused_to_save_memory_too(promtool: Promtool):
    refused = series(collector.MALFORMED, "0x40 0+5x40 200x200", reason="memory")
    malformed = series(collector.MALFORMED, "0x40 0+5x40 200x200", reason="malformed")
    cases = {
        "for memory": Case(refused, ("15m",), ("9m", "37m")),
        "malformed": Case(malformed, quiet=("9m", "15m", "37m")),
    }
    passed(promtool.test_each({why: asked("CollectorOutOfMemory", case) for why, case in cases.items()}))


def test_the_disk_alert_comes_while_the_queue_is_still_nearly_empty(promtool: Promtool):
    """A gigabyte for the queue and half of it on the disk: an hour's outage would fill the disk at its half."""
    queued = "0+4000000x120"
    outage = disk(f"{GIGABYTE // 2}-4000000x120", size=queued, queued=queued)
    questions = fires("CollectorDiskTooSmall", ("3m",), ()) + fires("CollectorQueueFilling", (), ("3m", "25m"))
    passed(promtool.test({**series(collector.UPTIME, ALIVE), **outage}, promql_expr_test=questions))


def test_the_message_names_the_collector_the_destination_and_the_value(promtool: Promtool):
    rule = BY_NAME["CollectorQueueFilling"]
    expected: dict[str, Any] = {
        "exp_labels": {"severity": "warning", **AGENT, **QUEUE},
        "exp_annotations": {
            "summary": "The agent node-1:4317 has half filled its queue to durable_otlp_grpc/gateway_1 (traces)",
            "description": "The queue is at 60% of its bound; when it is full senders are refused.",
            **links("CollectorQueueFilling", "otel-rl-collector", "instance=node-1:4317"),
        },
    }
    reported = {**series(collector.UPTIME, ALIVE), **_FULL, **series(collector.QUEUE_SIZE, "60x100", **QUEUE)}
    passed(promtool.test(reported, alert_rule_test=[alert_at("15m", rule, expected)]))


def test_recorded_signals_have_the_meaning_that_they_state(promtool: Promtool):
    who, queue = labels(**AGENT), labels(**AGENT, **QUEUE)
    reported = {
        **series(collector.UPTIME, ALIVE),
        **disk(f"{GIGABYTE}x200", size="300000000x200", queued="200000000x200"),
        **series(collector.OLDEST, "30x200", **QUEUE),
        **series(collector.SEND_LAG, "90x200", **QUEUE),
        **series(collector.OVERFLOW, "0x60 0+1x20", **QUEUE),
        **series(collector.SEND_FAILED[1], "0x60 0+2x20", exporter="otlp_http"),
    }

    def expect(rule: str, name: str, value: float) -> dict[str, Any]:
        return {"expr": f"round({rule}, 0.001)", "eval_time": "20m", "exp_samples": [{"labels": name, "value": value}]}

    questions = [expect(DISK_ROOM.name, who, 1.375), expect(QUEUE_AGE.name, queue, 90), expect(LOST.name, who, 57)]
    passed(promtool.test(reported, promql_expr_test=questions))


ROLE = label_name(collector.ROLE)
FAILED = dict(zip(("traces", "metrics", "logs"), collector.SEND_FAILED, strict=True))
REFUSED = dict(zip(FAILED, collector.REFUSED, strict=True))
NINETEEN = "0x60 0+1x20"
SIGNALS = {"lost": LOST, "pushed_back": PUSHED_BACK}
#: A gateway samples traces behind its receiver, so that nobody who sent them can be told.
SAMPLED = ("gateway", "traces")


def recorded(role: str, reported: dict[str, str], **expected: float) -> RuleTest:
    """What the rules about losses say of a collector with this role that reports these series."""
    alive = series(collector.UPTIME, ALIVE, **{ROLE: role})
    questions = [
        {
            "expr": f"round({SIGNALS[name].name}, 0.001)",
            "eval_time": "20m",
            "exp_samples": [{"labels": labels(**{**AGENT, ROLE: role}), "value": value}],
        }
        for name, value in expected.items()
    ]
    return rule_test({**alive, **reported}, promql_expr_test=questions)


def of_file_sink(role: str, signal: str) -> dict[str, str]:
    return series(FAILED[signal], NINETEEN, exporter=f"line_file/{signal}", **{ROLE: role})


def test_what_a_file_sink_drops_is_lost_once(promtool: Promtool):
    def dropped(role: str, signal: str) -> dict[str, str]:
        return series(collector.SIDE_SINK_DROPPED, NINETEEN, processor="side_sink", data_type=signal, **{ROLE: role})

    cases = {
        f"{signal} of a {role}": recorded(role, {**dropped(role, signal), **of_file_sink(role, signal)}, lost=19)
        for role in ("local", "gateway")
        for signal in FAILED
    }
    passed(promtool.test_each(cases))


def test_what_a_file_sink_pushes_back_is_not_lost_but_for_traces_that_it_pushes_back_to_the_sampler(promtool: Promtool):
    def refused(role: str, signal: str) -> dict[str, str]:
        return series(REFUSED[signal], NINETEEN, receiver="otlp", transport="http", **{ROLE: role})

    told = [(role, signal) for role in ("local", "gateway") for signal in FAILED if (role, signal) != SAMPLED]
    cases = {
        f"{signal} of a {role}": recorded(role, {**of_file_sink(role, signal), **refused(role, signal)}, lost=0)
        for role, signal in told
    }
    cases["traces of a gateway"] = recorded("gateway", of_file_sink(*SAMPLED), lost=19)
    passed(promtool.test_each(cases))


def test_traces_that_the_queue_of_a_stock_exporter_does_not_take_from_the_sampler_are_lost(promtool: Promtool):
    """Our own exporters count what becomes of them: dropped, or a dead letter."""
    expected = {"durable_otlp_grpc/sink": 0, "otlp_http/second": 19}
    cases = {
        exporter: recorded(
            "gateway",
            series(collector.NOT_QUEUED[0], NINETEEN, exporter=exporter, **{ROLE: "gateway"}),
            lost=lost,
        )
        for exporter, lost in expected.items()
    }
    passed(promtool.test_each(cases))


def test_what_a_full_queue_drops_is_lost_and_was_refused_to_nobody_and_what_it_pushes_back_is_refused_once(
    promtool: Promtool,
):
    sink = {"exporter": "durable_otlp_grpc/sink", ROLE: "gateway"}
    missed = series(collector.NOT_QUEUED[2], NINETEEN, **sink)
    dropped = series(collector.OVERFLOW, NINETEEN, data_type="logs", **sink)
    missed_by_agent = series(collector.NOT_QUEUED[2], NINETEEN, exporter="durable_otlp_grpc/gateway_1")
    refused = series(REFUSED["logs"], NINETEEN, receiver="otlp", transport="http")
    cases = {
        "drops": recorded("gateway", {**missed, **dropped}, lost=19, pushed_back=0),
        "pushes back": recorded("agent", {**missed_by_agent, **refused}, pushed_back=19),
    }
    passed(promtool.test_each(cases))
