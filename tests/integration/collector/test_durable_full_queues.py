"""Full queues through the real binary: core sinks push back or let senders wait, side sinks drop and count."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING

import shipped_settings
from collector_process import CollectorProcess, free_ports, wait_for
from otlp import span, trace_resource
from otlp_backend import OtlpBackend
from test_durable_delivery import LGTM, dead_letters, logs, metric, to

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_SINK = Path(__file__).parent / "second-core-sink.yaml"
SMALL = shipped_settings.of_exporters("sending_queue::queue_size", "600000")
LONG = "x" * 50_000
NAMES = [f"step {number}" for number in range(60)]


def busy(_request: object) -> int:
    return 503


def accepted(send: Callable[[], None]) -> bool:
    """Send once, and say whether the collector took it; a refusal must be one that a client repeats."""
    try:
        send()
    except urllib.error.HTTPError as refusal:
        if refusal.code != 503:
            raise
        return False
    return True


def send_steps(gateway: CollectorProcess) -> None:
    for number, name in enumerate(NAMES):
        steps = [
            span("rl.loop", {"padding": LONG}, trace_id=f"{number + 1:032x}"),
            span(name, trace_id=f"{number + 1:032x}"),
        ]
        gateway.send("traces", [trace_resource(steps)])


def test_traces_behind_tail_sampling_wait_for_room(otelcol_rl: Path, tmp_path: Path):
    with (
        OtlpBackend(answer=busy) as backend,
        CollectorProcess(otelcol_rl, LGTM, tmp_path, to(backend, **SMALL)) as gateway,
    ):
        send_steps(gateway)
        wait_for(lambda: "its sender waits" in gateway.log(), "a full queue")
        backend.answer = lambda _: 200
        wait_for(lambda: set(backend.taken) >= set(NAMES), "every step")
        assert all(backend.taken.count(name) == 1 for name in NAMES)


def test_stopping_while_senders_wait_loses_nothing(otelcol_rl: Path, tmp_path: Path):
    with (
        OtlpBackend(answer=busy) as backend,
        CollectorProcess(otelcol_rl, LGTM, tmp_path, to(backend, **SMALL)) as gateway,
    ):
        send_steps(gateway)
        wait_for(lambda: "its sender waits" in gateway.log(), "a full queue")
        assert gateway.stop() == 0
    kept = str(dead_letters(gateway))
    assert [name for name in NAMES if f"'{name}'" not in kept] == []


def test_a_full_queue_answers_senders_with_an_error_that_they_repeat(otelcol_rl: Path, tmp_path: Path):
    sent = []
    with (
        OtlpBackend(answer=busy) as backend,
        CollectorProcess(otelcol_rl, LGTM, tmp_path, to(backend, **SMALL)) as gateway,
    ):

        def send(body: str) -> bool:
            return accepted(lambda: gateway.send("logs", logs(body + LONG)))

        def filled() -> bool:
            body = f"record {len(sent)} "
            if send(body):
                sent.append(body)
                return False
            return True

        wait_for(filled, "a refusal")
        assert metric(gateway, "otelcol_exporter_pushed_back_items", exporter="durable_otlp_http/loki") > 0
        backend.answer = lambda _: 200
        wait_for(lambda: send("after "), "taken again")
        wait_for(lambda: len(backend.taken) >= len(sent) + 1, "everything that was taken")
        assert sorted(backend.taken) == sorted(body + LONG for body in [*sent, "after "])


def test_a_full_queue_beside_a_living_one_makes_few_duplicates(otelcol_rl: Path, tmp_path: Path):
    with OtlpBackend() as living, OtlpBackend(answer=busy) as dead:
        variables = to(living, OTEL_RL_TEST_SECOND_URL=dead.url)
        with CollectorProcess(otelcol_rl, [*LGTM, SECOND_SINK], tmp_path, variables) as gateway:
            taken, repeated = [], 0
            while repeated < 200:
                body = f"record {len(taken)} " + LONG
                if accepted(lambda body=body: gateway.send("logs", logs(body))):
                    taken.append(body)
                else:
                    repeated += 1
            wait_for(lambda: set(living.taken) >= set(taken), "the living backend has what was taken")
            # One request can find the queue full after the living exporter has taken it; until the queue is free again
            # nobody takes it another time.
            assert len(living.taken) <= len(taken) + 1
            dead.answer = lambda _: 200
            last = "last " + LONG
            wait_for(lambda: accepted(lambda: gateway.send("logs", logs(last))), "taken again")
            wait_for(lambda: set(dead.taken) >= {*taken, last} and last in living.taken, "both have everything")
            assert len(living.taken) <= len(taken) + 3


def test_a_side_sink_that_is_away_drops_and_counts_and_holds_nobody_back(otelcol_rl: Path, tmp_path: Path):
    away = {
        "OTEL_RL_COLLECTOR_OTLP_ENDPOINT": f"127.0.0.1:{free_ports(1)[0]}",
        shipped_settings.SINK_INSECURE: "true",
        "exporters::durable_otlp_grpc/sink::sending_queue::queue_size": "600000",
    }
    with OtlpBackend() as backend:
        variables = to(backend, **away, **SMALL)
        with CollectorProcess(otelcol_rl, [*LGTM, "sinks/otlp.yaml"], tmp_path, variables) as gateway:
            for number in range(40):
                gateway.send("logs", logs(f"record {number} " + LONG))
                wait_for(lambda number=number: len(backend.taken) == number + 1, "the core sink has it, once")
            dropped = wait_for(
                lambda: metric(gateway, "otelcol_exporter_overflow_dropped_items", exporter="durable_otlp_grpc/sink"),
                "drops",
            )
            assert dropped >= 20
            assert "items are dropped" in gateway.log()
            assert metric(gateway, "otelcol_exporter_enqueue_failed_log_records") >= 20
            assert metric(gateway, "otelcol_receiver_refused_log_records") == 0


def test_the_memory_limiter_pushes_back_and_nothing_that_was_taken_is_lost(otelcol_rl: Path, tmp_path: Path):
    limits = {"OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": "60", **shipped_settings.memory_spike("20")}
    with (
        OtlpBackend(answer=busy) as backend,
        CollectorProcess(otelcol_rl, LGTM, tmp_path, to(backend, **limits)) as gateway,
    ):
        taken = []

        def refused() -> bool:
            body = f"record {len(taken)} " + LONG * 10
            if accepted(lambda: gateway.send("logs", logs(body))):
                taken.append(body)
                return False
            return True

        wait_for(refused, "a refusal")
        assert (
            "data refused due to high memory usage" in gateway.log()
            or "Memory usage is above soft limit" in gateway.log()
        )
        backend.answer = lambda _: 200
        wait_for(lambda: set(backend.taken) >= set(taken), "everything that was taken")
        wait_for(lambda: not refused(), "taken again")
