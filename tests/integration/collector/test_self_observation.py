"""The collector speaks about itself in its own pipelines; its health tells a dead backend from a dead collector."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from collector_process import FILE_SINK, CollectorProcess, free_ports, wait_for
from otlp import attributes, log_resource, plain_value, span, trace_resource, value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK = {shipped_settings.SCRAPE_INTERVAL: "1s"}
LATE_SECONDS = 3
IMPATIENT = f"""
exporters:
  durable_otlp_http/loki: &quick
    unhealthy_after: 1s
    unhealthy_lag: {LATE_SECONDS}s
    retry_on_failure: {{initial_interval: 200ms, max_interval: 500ms}}
  durable_otlp_http/prometheus: *quick
  durable_otlp_http/tempo: *quick
"""


def own_records(collector: CollectorProcess) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each own log record with the attributes of its resource."""
    return [
        (attributes(group["resource"]), record)
        for group in collector.own_resources("logs")
        for scope in group["scopeLogs"]
        for record in scope["logRecords"]
    ]


def own_metrics(collector: CollectorProcess) -> dict[str, dict[str, Any]]:
    """Own metrics by name, with the attributes of their resource."""
    return {
        metric["name"]: attributes(group["resource"])
        for group in collector.own_resources("metrics")
        for scope in group["scopeMetrics"]
        for metric in scope["metrics"]
    }


def bodies(collector: CollectorProcess) -> list[str]:
    return [str(plain_value(record["body"])) for _, record in own_records(collector)]


def total(collector: CollectorProcess, name: str, **labels: str) -> float:
    """Sum of the series of an own metric with these labels, as a scrape shows it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{key}="{text}"' for key, text in labels.items()]
    found = [line for line in lines if re.match(rf"{name}(_total)?\{{", line) and all(each in line for each in wanted)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


@contextmanager
def backend(port: int) -> Iterator[None]:
    """A backend that takes every OTLP/HTTP request."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def gateway(otelcol_rl: Path, tmp_path: Path, port: int) -> Iterator[CollectorProcess]:
    """A gateway whose three backends are one address, at which nobody listens yet."""
    impatient = tmp_path / "impatient.yaml"
    impatient.write_text(IMPATIENT)
    address = f"http://127.0.0.1:{port}"
    backends = {f"OTEL_RL_COLLECTOR_{name}_URL": address for name in ("LOKI", "PROMETHEUS", "TEMPO")}
    letters = {"OTEL_RL_COLLECTOR_DEAD_LETTER_DIR": str(tmp_path / "letters")}
    files = ["gateway.yaml", "sinks/lgtm.yaml", impatient]
    with CollectorProcess(
        otelcol_rl, files, tmp_path, {**QUICK, **shipped_settings.flush_timeout("200ms"), **backends, **letters}
    ) as collector:
        yield collector


@pytest.fixture(scope="module")
def local(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """For the tests that only look at what a collector says of itself."""
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path_factory.mktemp("local"), QUICK) as running:
        yield running


def test_own_logs_and_metrics_take_the_way_of_all_telemetry(local: CollectorProcess):
    assert_tells_of_itself(local, "local")


def test_own_logs_and_metrics_of_a_gateway_take_the_way_of_all_telemetry(start_collector):
    assert_tells_of_itself(start_collector("gateway.yaml", FILE_SINK, **QUICK), "gateway")


def assert_tells_of_itself(collector: CollectorProcess, role: str) -> None:
    wait_for(lambda: "otelcol_process_uptime" in own_metrics(collector), "own metrics")
    wait_for(lambda: any("Everything is ready" in body for body in bodies(collector)), "own logs")
    assert any("Starting otelcol-rl" in body for body in bodies(collector)), "logged before any pipeline existed"
    identity, _ = own_records(collector)[0]
    port = collector.environment["OTEL_RL_COLLECTOR_GRPC_PORT"]
    assert identity["otel_rl.collector.role"] == role
    assert identity["service.instance.id"] == f"{identity['host.name']}:{port}"
    seen = own_metrics(collector)["otelcol_process_uptime"]
    assert {**identity, "service.version": seen["service.version"]} == seen


def test_an_agents_own_telemetry_arrives_at_its_gateway_under_the_agents_name(otelcol_rl: Path, tmp_path: Path):
    port = str(free_ports(1)[0])
    folders = [tmp_path / name for name in ("gateway", "agent")]
    for each in folders:
        each.mkdir()
    named = {**QUICK, "OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{port}", "OTEL_RL_COLLECTOR_INSTANCE": "node-17"}
    with (
        CollectorProcess(
            otelcol_rl, ["gateway.yaml", FILE_SINK], folders[0], {**QUICK, "OTEL_RL_COLLECTOR_GRPC_PORT": port}
        ) as gateway,
        CollectorProcess(otelcol_rl, ["agent.yaml"], folders[1], named),
    ):

        def senders(signal: str) -> set[tuple[str, str]]:
            identities = (attributes(group["resource"]) for group in gateway.own_resources(signal))
            return {(each["otel_rl.collector.role"], each["service.instance.id"]) for each in identities}

        for signal in ("metrics", "logs"):
            wait_for(lambda signal=signal: ("agent", "node-17") in senders(signal), f"the agent's own {signal}")
            assert {role for role, _ in senders(signal)} == {"agent", "gateway"}
        keys = {key for group in gateway.own_resources("metrics") for key in attributes(group["resource"])}
        assert not {key for key in keys if key.startswith("rl.")}


def test_own_records_carry_severity_component_and_place(local: CollectorProcess):
    wait_for(lambda: any("Everything is ready" in body for body in bodies(local)), "own logs")
    started = next(record for _, record in own_records(local) if "GRPC server" in plain_value(record["body"]))
    found = attributes(started)
    assert started["severityNumber"] == 9
    assert started["timeUnixNano"] <= started["observedTimeUnixNano"]
    assert found["otelcol.component.id"] == "otlp"
    assert found["code.file.path"].endswith("otlp.go")


def test_own_logs_pass_redaction(start_collector, tmp_path: Path, port: int):
    password = f"Winter-Violet-{port}xQ"
    noisy = tmp_path / "noisy.yaml"
    target = f"127.0.0.1:{port}"
    noisy.write_text(f"""
receivers:
  prometheus/noisy:
    config:
      scrape_configs:
        - job_name: "password={password}"
          scrape_interval: 1s
          static_configs: [{{targets: ["{target}"]}}]
service:
  pipelines:
    metrics/noisy: {{receivers: [prometheus/noisy], exporters: [forward/metrics_out]}}
""")
    collector = start_collector("local.yaml", noisy, **QUICK)
    wait_for(lambda: any("Everything is ready" in body for body in bodies(collector)), "own logs")
    wait_for(lambda: password in collector.log(), "the password on the console")
    wait_for(lambda: "Scrape job added" in collector.text("logs"), "the record that quotes it")
    assert password not in collector.text("logs")


def test_the_stop_is_orderly_and_what_it_says_arrives(start_collector):
    collector = start_collector("local.yaml", **QUICK)
    wait_for(lambda: bodies(collector), "own logs, and so a process that handles signals by now")
    assert collector.stop() == 0
    assert any("Starting shutdown" in body for body in bodies(collector))


def test_a_dead_backend_makes_a_bounded_number_of_own_records(gateway: CollectorProcess):
    """Each own record waits for the dead backend too: were every failure a record, each would make the next."""
    send_one_of_each(gateway)

    def failures() -> float:
        return total(gateway, "otelcol_exporter_failed_requests")

    def records() -> float:
        return total(gateway, "otelcol_processor_incoming_items", processor="transform/self", otel_signal="logs")

    wait_for(lambda: records() > 0 and failures() >= 3, "what the start logged, and failing deliveries")
    before, failed = records(), failures()
    wait_for(lambda: failures() >= failed + 30, "more of them")
    assert records() - before <= failures() - failed
    assert total(gateway, "otelcol_own_logs_dropped") == 0


def test_a_component_that_logs_each_of_our_records_does_not_run_away(start_collector, tmp_path: Path):
    """The debug exporter writes into the collector's own log unless told otherwise: a loop, one step a delivery."""
    loop = tmp_path / "loop.yaml"
    loop.write_text("""
exporters:
  debug/loop: {verbosity: detailed}
service:
  pipelines:
    logs/loop: {receivers: [own_logs], exporters: [debug/loop]}
""")
    collector = start_collector("local.yaml", loop, **QUICK)

    def deliveries() -> int:
        return sum("debug/loop" in json.dumps(record) for _, record in own_records(collector))

    wait_for(lambda: deliveries() >= 4, "the loop turns")
    lines = collector.text("logs").splitlines()
    assert all(line.count("debug/loop") < 100 for line in lines)
    assert max(len(body) for body in bodies(collector)) <= 1 << 14


def send_one_of_each(collector: CollectorProcess) -> None:
    collector.send("traces", [trace_resource([span("rl.run")])])
    collector.send("logs", [log_resource([{"body": value("a line")}])])


def test_status_turns_red_with_a_dead_backend_and_green_when_it_lives_again(gateway: CollectorProcess, port: int):
    send_one_of_each(gateway)
    _, body = wait_for(lambda: (found := gateway.ask("/status"))[0] == 503 and found, "red")
    assert body["status"] == "degraded"
    first = body["components"][0]
    assert first["component"].startswith("exporter:durable_otlp_http/")
    assert first["status"] == "RecoverableError"
    assert "nothing could be delivered for" in first["reason"]
    assert first["pipelines"]
    with backend(port):
        wait_for(lambda: gateway.ask("/status")[0] == 200, "green")
        assert gateway.ask("/status")[1] == {"status": "ok", "components": []}
    send_one_of_each(gateway)
    wait_for(lambda: gateway.ask("/status")[0] == 503, "red again")


def test_status_is_red_while_what_is_delivered_is_old(gateway: CollectorProcess, port: int):
    def delivered() -> float:
        return total(gateway, "otelcol_exporter_sent_spans")

    def age() -> float:
        return total(gateway, "otelcol_exporter_oldest_undelivered_age", exporter="durable_otlp_http/tempo")

    gateway.send("traces", [trace_resource([span("rl.run")])])
    wait_for(lambda: age() > LATE_SECONDS, "a queue that is old")
    with backend(port):
        wait_for(delivered, "the old span arrives")
        code, body = gateway.ask("/status")
        assert code == 503
        assert "exporter:durable_otlp_http/tempo" in {each["component"] for each in body["components"]}
        gateway.send("traces", [trace_resource([span("rl.run")])])
        wait_for(lambda: gateway.ask("/status")[0] == 200, "green with what is new")


def test_a_dead_backend_leaves_liveness_and_readiness_green(gateway: CollectorProcess):
    send_one_of_each(gateway)
    wait_for(lambda: gateway.ask("/status")[0] == 503, "red")
    for path in ("/", "/live", "/ready"):
        assert gateway.ask(path)[0] == 200


def test_health_lists_every_component_on_request(local: CollectorProcess):
    _, body = local.ask("/status?all")
    named = {each["component"]: each["status"] for each in body["components"]}
    assert named["exporter:line_file/traces"] == "OK"
    assert named["receiver:otlp"] == "OK"


def test_size_and_free_space_of_the_folder_are_own_metrics(local: CollectorProcess):
    wait_for(lambda: "otelcol_folder_size" in own_metrics(local), "the size of the folder")
    wait_for(lambda: total(local, "otelcol_folder_size", folder="data") > 0, "what is in it")
    assert total(local, "otelcol_folder_free", folder="data") > 0


def test_an_address_that_is_taken_is_named_with_the_variable_that_moves_it(otelcol_rl: Path, tmp_path: Path, port: int):
    with backend(port):
        taken = {"OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": f"127.0.0.1:{port}"}
        collector = CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path, taken)
        with pytest.raises(AssertionError, match="OTEL_RL_COLLECTOR_HEALTH_ENDPOINT"):
            collector.__enter__()
