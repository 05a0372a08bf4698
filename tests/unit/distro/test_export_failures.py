"""The reason that our lines give for a loss is what the server or the system said, not what the exporter made of it."""

from __future__ import annotations

import logging
import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("requests")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_rl.pipeline import exporters, sdk_logging
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.exporter_selection import OTLP_GRPC, OTLP_HTTP
from otel_rl.pipeline.sink import Sink

GAVE_UP = "Failed to export spans batch due to timeout, max retries or shutdown."


@pytest.fixture(autouse=True)
def _exporters_log_to_us(monkeypatch):
    """As on an I/O thread of ours."""
    upstream = logging.getLogger("opentelemetry")
    monkeypatch.setattr(upstream, "propagate", False)
    monkeypatch.setattr(threading.current_thread(), "name", "otel-rl-network")
    upstream.addHandler(sdk_logging.last_error)
    yield
    upstream.removeHandler(sdk_logging.last_error)


def _spans():
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.get_tracer("t").start_span("s").end()
    return list(memory.get_finished_spans())


def _reason_of_loss(monkeypatch, port, timeout):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
    sink = Sink("traces", Destination(OTLP_HTTP, "test"), lambda: exporters.open_exporter("traces", OTLP_HTTP, None))
    return _lose(sink).reason


def _lose(sink):
    assert not sink.export(_spans())
    sink.close()
    return sink


# 0.2 s is shorter than the first backoff, 3 s are not.
@pytest.mark.parametrize("timeout", ["0.2", "3"])
def test_port_that_refuses_is_said_to_refuse(monkeypatch, timeout):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening

        assert _reason_of_loss(monkeypatch, unused.getsockname()[1], timeout) == "Connection refused"


def test_server_that_accepts_and_never_answers_is_said_to_time_out(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert _reason_of_loss(monkeypatch, mute.getsockname()[1], "0.2") == "timed out"


@pytest.mark.parametrize(("status", "timeout"), [(404, "5"), (503, "0.2")])
def test_answer_of_a_server_that_refuses_is_its_status(monkeypatch, status, timeout):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(status)

        def log_message(self, *_):
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            assert _reason_of_loss(monkeypatch, server.server_address[1], timeout) == f"code: {status}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("code: 401", "credentials are missing or wrong"),
        ("UNAUTHENTICATED", "credentials are missing or wrong"),
        ("code: 403", "may not write there"),
        ("PERMISSION_DENIED", "may not write there"),
        ("code: 404", "takes no OTLP there"),
        ("UNIMPLEMENTED", "takes no OTLP there"),
        ("code: 503", "overloaded or not ready"),
        ("Service Unavailable", "overloaded or not ready"),
        ("code: 418", "answers with an error"),
        ("error code: StatusCode.INVALID_ARGUMENT", "answers with an error"),
        ("Connection refused", "check that a collector answers there"),
        ("StatusCode.UNAVAILABLE", "check that a collector answers there"),
        ("", "check that a collector answers there"),
    ],
)
def test_the_advice_follows_from_what_the_destination_answered(reason, advice):
    assert advice in Destination(OTLP_HTTP, "there").advice(reason, unopened=False)


def test_a_reason_that_grpc_logs_once_a_minute_is_given_for_each_loss(monkeypatch):
    pytest.importorskip("grpc")
    from grpc import StatusCode
    from support.otlp_servers import grpc_server

    with grpc_server(StatusCode.UNAUTHENTICATED) as port:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        open_exporter = partial(exporters.open_exporter, "traces", OTLP_GRPC, None)
        sink = Sink("traces", Destination(OTLP_GRPC, "there"), open_exporter)
        assert [_lose(sink).reason for _ in range(2)] == ["UNAUTHENTICATED: said the server"] * 2


@pytest.mark.parametrize(
    ("logged", "reason"),
    [
        (
            ["Transient error Service Unavailable encountered while exporting spans batch", GAVE_UP],
            "Service Unavailable",
        ),
        (["Transient error [Errno 111] Connection refused encountered", GAVE_UP], "Connection refused"),
        ([GAVE_UP], ""),
    ],
)
def test_last_words_of_an_exporter_do_not_hide_the_cause(logged, reason):
    thread = sdk_logging.last_error.begin_export()
    for message in logged:
        logging.getLogger("opentelemetry.exporter.otlp.test").warning(message)

    assert sdk_logging.last_error.reason(thread) == reason
