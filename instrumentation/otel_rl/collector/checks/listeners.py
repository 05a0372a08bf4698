"""Checks of the addresses that a collector listens on: none of them twice, and no open door without a word."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from otel_rl.collector.checks import wire
from otel_rl.collector.checks.destinations import EVERYWHERE, host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

VARIABLES = {
    "otlp grpc": "OTEL_RL_COLLECTOR_GRPC_PORT",
    "otlp http": "OTEL_RL_COLLECTOR_HTTP_PORT",
    "own metrics": "OTEL_RL_COLLECTOR_METRICS_PORT",
    "health_check": "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT",
    "health_status": "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT",
}
"""Listener -> the variable that moves it."""


def on_one_port(listens: Mapping[str, str]) -> Iterator[str]:
    """Report two listeners of one collector with one address: the second could not start."""
    for (first, address), (second, other) in combinations(listens.items(), 2):
        (host, port), (other_host, other_port) = host_and_port(address), host_and_port(other)
        is_one_host = host == other_host or host in EVERYWHERE or other_host in EVERYWHERE
        if port == other_port and port.strip("0").isdecimal() and is_one_host:
            names = [VARIABLES.get(each, f"the endpoint of {each}") for each in (first, second)]
            yield f"{first} and {second} both listen on port {port}; change {' or '.join(dict.fromkeys(names))}"


def open_to_all(actual: Mapping[str, Any]) -> list[str]:
    """Return a warning where receivers take data from other machines in plaintext and from everybody.

    ``actual`` contains no variables. It is no problem: a network may be closed to others.
    """
    found = [f"{name} on {endpoint}" for name, endpoint, is_asked in wire.plain_receivers(actual) if not is_asked]
    warning = (
        f"{', '.join(found)}: without TLS and credentials everybody who reaches this machine can send, and read on the "
        "way; add --with tls token (agent: --with receiver-tls receiver-token), see docs/collector-security.md, or set "
        "OTEL_RL_COLLECTOR_LISTEN to 127.0.0.1"
    )
    return [warning] if found else []
