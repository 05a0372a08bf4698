"""The collector ends connections that are idle, and senders that are behind them lose nothing."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from bad_input import by_command
from collector_process import CollectorProcess, wait_for
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.sdk.trace.export import SpanExporter

PROTOCOLS = "receivers::otlp::protocols"
SETTINGS = {
    "http": f"{PROTOCOLS}::http::idle_timeout",
    "grpc": f"{PROTOCOLS}::grpc::keepalive::server_parameters::max_connection_idle",
}


def _exporter(protocol: str, port: int) -> SpanExporter:
    if protocol == "http":
        return HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")
    return GrpcExporter(endpoint=f"127.0.0.1:{port}", insecure=True)


def _ended_span(name: str) -> ReadableSpan:
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span(name) as begun:
        pass
    assert isinstance(begun, ReadableSpan)
    return begun


class Relay:
    """Stands between a sender and a collector, and counts the connections that ended."""

    def __init__(self, port: int) -> None:
        self._collector = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.ended = 0

    def __enter__(self) -> Relay:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the end of the listener
            while True:
                sender, _ = self._listener.accept()
                collector = socket.create_connection(("127.0.0.1", self._collector))
                threading.Thread(target=_copy, args=(sender, collector), daemon=True).start()
                threading.Thread(target=self._answer, args=(collector, sender), daemon=True).start()

    def _answer(self, collector: socket.socket, sender: socket.socket) -> None:
        try:
            _copy(collector, sender)
        finally:
            self.ended += 1


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Send on what comes until it ends, and that it ended."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_sender_whose_idle_connection_was_ended_sends_over_a_new_one(otelcol_rl: Path, tmp_path: Path, protocol: str):
    local = by_command(otelcol_rl, tmp_path, ["--role", "local"], **{SETTINGS[protocol]: "500ms"})
    with local as running:
        port = {"http": running.http_port, "grpc": int(running.environment["OTEL_RL_COLLECTOR_GRPC_PORT"])}[protocol]
        with Relay(port) as relay:
            exporter = _exporter(protocol, relay.port)
            try:
                _deliver(exporter, running, "before")
                wait_for(lambda: relay.ended == 1, "the connection ends")
                _deliver(exporter, running, "after")
            finally:
                exporter.shutdown()


def _deliver(exporter: SpanExporter, collector: CollectorProcess, name: str) -> None:
    assert exporter.export([_ended_span(name)]) is SpanExportResult.SUCCESS
    wait_for(lambda: f'"{name}"' in collector.text("traces"), f"the span {name} is written")
