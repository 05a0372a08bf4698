"""Checks of the exporters' destinations: no loop to the same collector, no gateway listed twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks.structure import identifiers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
EVERYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104  (compared with, never listened on)


def to_itself(actual: Mapping[str, Any], listens: Mapping[str, str]) -> Iterator[str]:
    """Report exporters that send to a receiver of the same collector: an endless loop."""
    receivers = {what: endpoint for what, endpoint in listens.items() if what.startswith("otlp ")}
    for exporter, destination in _endpoints(actual):
        for what, endpoint in receivers.items():
            if _reaches(destination, endpoint):
                yield (
                    f"{exporter} sends to {destination}, where this collector's own {what} listens: everything would "
                    "go round for ever; correct the destination, or move the receiver with "
                    "OTEL_RL_COLLECTOR_GRPC_PORT and OTEL_RL_COLLECTOR_HTTP_PORT"
                )


def one_for_two(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report gateways with the same address: one gateway would silently get the share of both."""
    seen: dict[tuple[str, str], str] = {}
    for exporter, destination in _endpoints(actual):
        if exporter.partition("/")[2].startswith("gateway_"):
            first = seen.setdefault(host_and_port(destination), exporter)
            if first != exporter:
                yield f"{exporter} and {first} are both {destination}; give each gateway its own address"


def _endpoints(actual: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for exporter, given in identifiers(actual, "exporters").items():
        if isinstance(given, dict) and given.get("endpoint"):
            yield exporter, str(given["endpoint"])


def host_and_port(endpoint: str) -> tuple[str, str]:
    """Return the host, with one name for this machine's loopback, and the port."""
    host, _, port = endpoint.rpartition("://")[2].partition("/")[0].rpartition(":")
    host = host.strip("[]").lower()
    return ("localhost" if host in _LOOPBACK else host), port


def _reaches(destination: str, listening: str) -> bool:
    host, port = host_and_port(destination)
    own_host, own_port = host_and_port(listening)
    return port == own_port != "0" and (host == own_host or (own_host in EVERYWHERE and host == "localhost"))
