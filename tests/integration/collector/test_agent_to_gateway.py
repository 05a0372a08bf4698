"""Two real collectors in a row: what an agent ships arrives at its gateway, whole and once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collector_process import FILE_SINK, CollectorProcess, free_ports, wait_for
from otlp import attributes, log_resource, metric_resource, span, trace_resource, value

if TYPE_CHECKING:
    from pathlib import Path


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def test_all_three_signals_arrive_once(otelcol_rl: Path, tmp_path: Path):
    port = str(free_ports(1)[0])
    fast = {"OTEL_RL_COLLECTOR_GRPC_PORT": port, "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s"}
    way = {"OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{port}", "OTEL_RL_COLLECTOR_GATEWAYS": f'["127.0.0.1:{port}"]'}
    with (
        CollectorProcess(otelcol_rl, ["gateway.yaml", FILE_SINK], folder(tmp_path, "gateway"), fast) as gateway,
        CollectorProcess(otelcol_rl, ["agent.yaml"], folder(tmp_path, "agent"), way) as agent,
    ):
        step = [span("rl.loop"), span("rl.rank.step")]
        agent.send("traces", [trace_resource(step, **{"rl.rank": 0})])
        agent.send("logs", [log_resource([{"eventName": "rl.step", "body": value({"loss": 0.5})}])])
        agent.send("metrics", [metric_resource("rl.train.loss", 0.5)])
        wait_for(lambda: len(gateway.spans()) == len(step), "the spans")
        wait_for(gateway.log_records, "the log record")
        names = {"rl.train.loss", "system.cpu.time"}
        wait_for(lambda: {metric["name"] for metric in gateway.metrics()} >= names, "the metric and the host's metrics")
        resource = next(iter(gateway.resources("traces")))["resource"]
        assert attributes(resource)["rl.rank"] == 0
        assert attributes(resource)["host.name"]


def test_what_an_agent_holds_for_a_dead_gateway_outlives_it(otelcol_rl: Path, tmp_path: Path):
    port = str(free_ports(1)[0])
    way = {"OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{port}", "OTEL_RL_COLLECTOR_GATEWAYS": f'["127.0.0.1:{port}"]'}
    agent_folder = folder(tmp_path, "agent")
    with CollectorProcess(otelcol_rl, ["agent.yaml"], agent_folder, way) as agent:
        agent.send("logs", [log_resource([{"body": value("written while the gateway was away")}])])
    listen = {"OTEL_RL_COLLECTOR_GRPC_PORT": port}
    with (
        CollectorProcess(otelcol_rl, ["gateway.yaml", FILE_SINK], folder(tmp_path, "gateway"), listen) as gateway,
        CollectorProcess(otelcol_rl, ["agent.yaml"], agent_folder, way),
    ):
        wait_for(gateway.log_records, "the record of the first agent")
