"""Servers that take OTLP over HTTP or gRPC, or answer it with any status, with TLS or without."""

from __future__ import annotations

import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: opentelemetry-exporter-otlp-proto-http 1.44 follows redirects, and its certificate wins over REQUESTS_CA_BUNDLE.
EXPORTER_1_45 = pytest.mark.skipif(
    version("opentelemetry-exporter-otlp-proto-http").startswith("1.44"), reason="the exporter behaves otherwise"
)
HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


class HTTPServer:
    """Answers every request alike, and keeps path, headers and body of each."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, context: ssl.SSLContext | None) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, sent))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_CONNECT = do_POST  # noqa: N815 - the base class's form of names

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def http_server(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"", context: ssl.SSLContext | None = None
) -> Iterator[HTTPServer]:
    server = HTTPServer(status, headers or {}, body, context)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def grpc_server(
    code: grpc.StatusCode | None = None,
    credentials: Any = None,
    *,
    services: bool = True,
    port: int = 0,
    traces: Any = None,
    received: list[Any] | None = None,
) -> Iterator[int]:
    """A gRPC server that takes OTLP, or answers ``code``, or ``traces`` to spans; yields its port.

    The requests with spans go to ``received``.
    """

    def respond(answer: Any) -> Any:
        def export(request: Any, context: grpc.ServicerContext) -> Any:
            if received is not None and hasattr(request, "resource_spans"):
                received.append(request)
            if code is not None:
                context.abort(code, "said the server")
            return answer

        return export

    server = grpc.server(ThreadPoolExecutor(4))
    if services:
        trace, metrics, logs = (
            trace_service_pb2_grpc.TraceServiceServicer(),
            metrics_service_pb2_grpc.MetricsServiceServicer(),
            logs_service_pb2_grpc.LogsServiceServicer(),
        )
        trace.Export = respond(traces or trace_service_pb2.ExportTraceServiceResponse())
        metrics.Export = respond(metrics_service_pb2.ExportMetricsServiceResponse())
        logs.Export = respond(logs_service_pb2.ExportLogsServiceResponse())
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(trace, server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, server)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(logs, server)
    add = server.add_insecure_port if credentials is None else server.add_secure_port
    address = f"127.0.0.1:{port}"
    port = add(*([address] if credentials is None else [address, credentials]))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def ssl_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def grpc_credentials(certificate: tuple[Path, Path]) -> Any:
    return grpc.ssl_server_credentials([(certificate[1].read_bytes(), certificate[0].read_bytes())])
