"""The alerts about collectors as Prometheus evaluates them: each fires, stays quiet and resolves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from promtool_rules import Promtool, alert_at, labels, links, passed

from dashboards.lib import collector
from dashboards.lib.names import label_name, prometheus_name
from dashboards.rules.collector import ALERTS
from dashboards.rules.collector_signals import DISK_ROOM, LOST, PUSHED_BACK, QUEUE_AGE

if TYPE_CHECKING:
    from dashboards.lib.rules import RecordingRule
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


def check(promtool: Promtool, name: str, case: Case) -> None:
    """Whether the alert fires is asked of Prometheus' own series of alerts."""
    firing = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    moments = [(time, [{"labels": "{}", "value": 1}]) for time in case.fires] + [(time, []) for time in case.quiet]
    questions = [{"expr": firing, "eval_time": time, "exp_samples": samples} for time, samples in moments]
    passed(promtool.test({**series(collector.UPTIME, case.alive), **case.series}, promql_expr_test=questions))


def test_every_alert_has_a_case():
    assert FIRE_AND_RESOLVE.keys() == BY_NAME.keys()
    assert {name for name, _ in QUIET.values()} <= BY_NAME.keys()


def test_requests_refused_before_they_are_decoded_are_refused_to_save_memory_too(promtool: Promtool):
    refused = series(collector.MALFORMED, "0x40 0+5x40 200x200", reason="memory")
    check(promtool, "CollectorOutOfMemory", Case(refused, ("15m",), ("9m", "37m")))
    malformed = series(collector.MALFORMED, "0x40 0+5x40 200x200", reason="malformed")
    check(promtool, "CollectorOutOfMemory", Case(malformed, quiet=("9m", "15m", "37m")))


@pytest.mark.parametrize("name", FIRE_AND_RESOLVE)
def test_it_fires_and_resolves(promtool: Promtool, name: str):
    check(promtool, name, FIRE_AND_RESOLVE[name])


@pytest.mark.parametrize("case", QUIET)
def test_it_stays_quiet(promtool: Promtool, case: str):
    check(promtool, *QUIET[case])


def test_the_disk_alert_comes_while_the_queue_is_still_nearly_empty(promtool: Promtool):
    """A gigabyte for the queue and half of it on the disk: an hour's outage would fill the disk at its half."""
    queued = "0+4000000x120"
    outage = disk(f"{GIGABYTE // 2}-4000000x120", size=queued, queued=queued)
    check(promtool, "CollectorDiskTooSmall", Case(outage, ("3m",)))
    check(promtool, "CollectorQueueFilling", Case(outage, quiet=("3m", "25m")))


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


def recorded(promtool: Promtool, rule: RecordingRule, role: str, reported: dict[str, str], expected: float) -> None:
    """What a rule says of a collector with this role that reports these series."""
    alive = series(collector.UPTIME, ALIVE, **{ROLE: role})
    sample = {"labels": labels(**{**AGENT, ROLE: role}), "value": expected}
    question = {"expr": f"round({rule.name}, 0.001)", "eval_time": "20m", "exp_samples": [sample]}
    passed(promtool.test({**alive, **reported}, promql_expr_test=[question]))


@pytest.mark.parametrize("signal", FAILED)
@pytest.mark.parametrize("role", ["local", "gateway"])
def test_what_a_file_sink_drops_is_lost_once(promtool: Promtool, role: str, signal: str):
    dropped = series(collector.SIDE_SINK_DROPPED, NINETEEN, processor="side_sink", data_type=signal, **{ROLE: role})
    failed = series(FAILED[signal], NINETEEN, exporter=f"line_file/{signal}", **{ROLE: role})
    recorded(promtool, LOST, role, {**dropped, **failed}, 19)


@pytest.mark.parametrize(
    ("role", "signal"),
    [("local", "traces"), ("local", "metrics"), ("local", "logs"), ("gateway", "metrics"), ("gateway", "logs")],
)
def test_what_a_file_sink_pushes_back_is_not_lost(promtool: Promtool, role: str, signal: str):
    failed = series(FAILED[signal], NINETEEN, exporter=f"line_file/{signal}", **{ROLE: role})
    refused = series(REFUSED[signal], NINETEEN, receiver="otlp", transport="http", **{ROLE: role})
    recorded(promtool, LOST, role, {**failed, **refused}, 0)


def test_traces_that_a_file_sink_pushes_back_to_the_sampler_are_lost(promtool: Promtool):
    failed = series(FAILED["traces"], NINETEEN, exporter="line_file/traces", **{ROLE: "gateway"})
    recorded(promtool, LOST, "gateway", failed, 19)


@pytest.mark.parametrize(("exporter", "expected"), [("durable_otlp_grpc/sink", 0), ("otlp_http/second", 19)])
def test_traces_that_the_queue_of_a_stock_exporter_does_not_take_from_the_sampler_are_lost(
    promtool: Promtool, exporter: str, expected: float
):
    """Our own exporters count what becomes of them: dropped, or a dead letter."""
    missed = series(collector.NOT_QUEUED[0], NINETEEN, exporter=exporter, **{ROLE: "gateway"})
    recorded(promtool, LOST, "gateway", missed, expected)


def test_what_a_full_queue_drops_is_lost_and_was_refused_to_nobody(promtool: Promtool):
    sink = {"exporter": "durable_otlp_grpc/sink", ROLE: "gateway"}
    missed = series(collector.NOT_QUEUED[2], NINETEEN, **sink)
    dropped = series(collector.OVERFLOW, NINETEEN, data_type="logs", **sink)
    recorded(promtool, LOST, "gateway", {**missed, **dropped}, 19)
    recorded(promtool, PUSHED_BACK, "gateway", {**missed, **dropped}, 0)


def test_what_a_full_queue_pushes_back_is_refused_once(promtool: Promtool):
    missed = series(collector.NOT_QUEUED[2], NINETEEN, exporter="durable_otlp_grpc/gateway_1")
    refused = series(REFUSED["logs"], NINETEEN, receiver="otlp", transport="http")
    recorded(promtool, PUSHED_BACK, "agent", {**missed, **refused}, 19)
