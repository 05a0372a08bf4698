"""The overlay for elastic sites: traces by trace id over a list of gateways, each whole on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from collector_process import FILE_SINK, CollectorProcess, free_ports, wait_for
from otlp import span, trace_resource

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts.choices import select

if TYPE_CHECKING:
    from pathlib import Path

TRACES = 32
SPANS = 3


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def test_every_trace_arrives_whole_on_one_of_the_listed_gateways(otelcol_rl: Path, tmp_path: Path):
    ports = [str(port) for port in free_ports(2)]
    keep = {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100", "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s"}
    first, second = (
        CollectorProcess(
            otelcol_rl,
            ["gateway.yaml", FILE_SINK],
            folder(tmp_path, f"gateway {port}"),
            {"OTEL_RL_COLLECTOR_GRPC_PORT": port, **keep},
        )
        for port in ports
    )
    way = {
        "OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{ports[0]}",
        "OTEL_RL_COLLECTOR_GATEWAYS": '["127.0.0.1:{}","127.0.0.1:{}"]'.format(*ports),
    }
    files = ["agent.yaml", "overlays/load-balancing.yaml"]
    with first, second, CollectorProcess(otelcol_rl, files, folder(tmp_path, "agent"), way) as agent:
        for number in range(1, TRACES + 1):
            spans = [span("work", trace_id=f"{number * 0x9E3779B97F4A7C15:032x}") for _ in range(SPANS)]
            agent.send("traces", [trace_resource(spans)])
        wait_for(lambda: len(first.spans()) + len(second.spans()) == TRACES * SPANS, "all spans")
        owners = [{each["traceId"] for each in gateway.spans()} for gateway in (first, second)]
        assert all(owners)
        assert not owners[0] & owners[1]


def test_it_is_refused_together_with_a_fixed_number_of_gateways():
    with pytest.raises(Refused, match="load-balancing and --gateways cannot be combined"):
        select("agent", options=["load-balancing"], gateways=2)
