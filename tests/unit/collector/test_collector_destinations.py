"""Destinations that are refused: the collector itself, and one gateway under two names."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ruamel.yaml")

from otel_rl.collector.checks import destinations, variable_values

LISTENS = {"otlp grpc": "127.0.0.1:4317", "otlp http": "0.0.0.0:4318", "health_status": "127.0.0.1:13133"}


def exporters(**endpoints: str) -> dict[str, Any]:
    return {"exporters": {f"durable_otlp_grpc/{name}": {"endpoint": value} for name, value in endpoints.items()}}


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4317", "localhost:4317", "[::1]:4317", "http://localhost:4318/v1"])
def test_a_destination_that_is_the_collector_itself_is_refused(endpoint: str):
    (found,) = destinations.to_itself(exporters(sink=endpoint), LISTENS)
    assert found.startswith(f"durable_otlp_grpc/sink sends to {endpoint}, where this collector's own otlp ")
    assert "OTEL_RL_COLLECTOR_GRPC_PORT" in found


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:14317", "gateway:4317", "127.0.0.1:13133", "http://127.0.0.1:9090/otlp"]
)
def test_another_destination_is_none_of_the_collectors_own(endpoint: str):
    assert list(destinations.to_itself(exporters(sink=endpoint), LISTENS)) == []


def test_two_gateways_with_one_address_are_refused():
    (found,) = destinations.one_for_two(exporters(gateway_1="localhost:14317", gateway_2="127.0.0.1:14317"))
    assert found.startswith("durable_otlp_grpc/gateway_2 and durable_otlp_grpc/gateway_1 are both 127.0.0.1:14317")
    assert list(destinations.one_for_two(exporters(gateway_1="a:4317", gateway_2="b:4317"))) == []


def agent(*names: str) -> dict[str, Any]:
    return {"exporters": {name: {"endpoint": "${env:" + name + "}"} for name in names}}


def test_an_agent_that_was_told_of_more_gateways_than_it_shares_with_is_refused():
    environ = {f"OTEL_RL_COLLECTOR_GATEWAY_{number}": f"gateway-{number}:4317" for number in (1, 2, 3)}
    two = agent("OTEL_RL_COLLECTOR_GATEWAY_1", "OTEL_RL_COLLECTOR_GATEWAY_2")
    (found,) = variable_values.problems(two, environ)
    assert found == (
        "OTEL_RL_COLLECTOR_GATEWAY_3: set, but not read with this number of gateways; use --gateways 3 or unset it"
    )
    (forgotten,) = variable_values.problems(agent("OTEL_RL_COLLECTOR_GATEWAY"), environ)
    assert "use --gateways 3" in forgotten
    assert variable_values.problems({"exporters": {}}, environ) == []
