"""An agent as ``--gateways 2`` makes it, with the real binary: a trace or a node belongs to one gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from collector_process import FILE_SINK, CollectorProcess, free_ports, wait_for
from otlp import attributes, log_resource, metric_resource, span, trace_resource, value

from otel_rl.collector.parts import gateways as generated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODES = [f"node-{number}" for number in range(12)]
TRACES = [f"{number * 0x9E3779B97F4A7C15:032x}" for number in range(1, 25)]
SPANS = 3
RECORD = "a line"
GAUGE = "rl.train.loss"


@pytest.fixture
def chain(otelcol_rl: Path, tmp_path: Path) -> Iterator[tuple[CollectorProcess, list[CollectorProcess]]]:
    """An agent and its two gateways, which write what they get."""
    folders = [tmp_path / name for name in ("agent", "first", "second")]
    for folder in folders:
        folder.mkdir()
    ports = [str(port) for port in free_ports(2)]
    keep = {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100", "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s"}
    gateways = [
        CollectorProcess(otelcol_rl, ["gateway.yaml", FILE_SINK], folder, {"OTEL_RL_COLLECTOR_GRPC_PORT": port, **keep})
        for folder, port in zip(folders[1:], ports, strict=True)
    ]
    part = tmp_path / "gateways.yaml"
    part.write_text("\n".join(source.text for source in generated.parts(2)))
    way = {name: f"127.0.0.1:{port}" for name, port in zip(generated.variables(2), ports, strict=True)}
    with gateways[0], gateways[1], CollectorProcess(otelcol_rl, ["agent.yaml", part], folders[0], way) as agent:
        yield agent, gateways


def nodes(gateway: CollectorProcess, signal: str, needle: str) -> set[str]:
    """Return the nodes whose items of a test a gateway got."""
    return {
        str(attributes(resource["resource"])["host.name"])
        for resource in gateway.resources(signal)
        if needle in str(resource)
    }


def test_each_trace_and_each_node_belongs_to_one_gateway(chain: tuple[CollectorProcess, list[CollectorProcess]]):
    agent, gateways = chain
    for trace in TRACES:
        agent.send("traces", [trace_resource([span("work", trace_id=trace) for _ in range(SPANS)])])
    for node in NODES:
        for _ in range(2):
            agent.send("metrics", [metric_resource(GAUGE, 0.5, **{"host.name": node})])
            agent.send("logs", [log_resource([{"body": value(RECORD)}], **{"host.name": node})])

    wait_for(lambda: sum(len(each.spans()) for each in gateways) == len(TRACES) * SPANS, "all spans")
    traces = [{each["traceId"] for each in gateway.spans()} for gateway in gateways]
    assert all(traces)
    assert not traces[0] & traces[1]

    owners = {}
    for signal, needle in (("metrics", GAUGE), ("logs", RECORD)):
        wait_for(lambda: set().union(*(nodes(each, signal, needle) for each in gateways)) == set(NODES), signal)  # noqa: B023
        owners[signal] = [nodes(gateway, signal, needle) for gateway in gateways]
        assert all(owners[signal])
        assert not owners[signal][0] & owners[signal][1]
    assert owners["metrics"] == owners["logs"]
