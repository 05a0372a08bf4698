"""What a destination did not take waits, and goes to the run's files in the end; only what it accepted is delivered."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from process_support import Collector, closed_port
from support.otlp_servers import grpc_credentials, grpc_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from process_support import Programs

#: Records during an outage and after it; the test ends the outage when it sees the file.
OUTAGE = """
import otel_rl, time
from opentelemetry import trace
tracer = trace.get_tracer("program")
def record(names):
    for name in names: tracer.start_span(name).end()
record("ab")
print(otel_rl.flush(1))
open("outage", "w").close()
record("cd")
deadline = time.monotonic() + 240
while not otel_rl.flush(1) and time.monotonic() < deadline: time.sleep(0.01)
print(time.monotonic() < deadline)
"""


def _http(collector: Collector, **environ: str) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_RL_EXIT_TIMEOUT": "20",
        **environ,
    }


@pytest.fixture
def overloaded() -> Iterator[Collector]:
    server = Collector(503, {"Retry-After": "0"})
    yield server
    server.stop()


def _wait_for(programs: Programs, name: str) -> None:
    deadline = time.monotonic() + 240
    while not (programs.directory / name).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_an_outage_refused_arrives_once_and_in_order_when_it_ends(
    programs: Programs, overloaded: Collector
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(programs.instrumented, OUTAGE, **_http(overloaded))
        _wait_for(programs, "outage")
        overloaded.status = 200
        done = running.result()

    assert done.out == "False\nTrue\n"
    assert [name for name in overloaded.spans() if name != "rl.run"] == list("abcd")
    assert "could not be delivered" not in done.err
    assert not (programs.directory / "otel-rl").exists()


def test_grpc_connects_again_after_an_outage(programs: Programs) -> None:
    port, received = closed_port(), []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            programs.instrumented,
            OUTAGE,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
        )
        _wait_for(programs, "outage")
        with grpc_server(port=port, received=received):
            done = running.result()

    names = [span.name for request in received for part in request.resource_spans for span in part.scope_spans[0].spans]
    assert [name for name in names if name != "rl.run"] == list("abcd")
    assert done.out == "False\nTrue\n"


def test_files_hold_what_was_not_acknowledged_and_nothing_else(programs: Programs, collector: Collector) -> None:
    text = (
        "import otel_rl, os, time\nfrom opentelemetry import trace\n"
        "trace.get_tracer('program').start_span('acknowledged').end()\n"
        "assert otel_rl.flush(30)\nopen('flushed', 'w').close()\n"
        "while not os.path.exists('outage'): time.sleep(0.01)\n"
        "trace.get_tracer('program').start_span('refused').end()\n"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(programs.instrumented, text, **_http(collector))
        _wait_for(programs, "flushed")
        collector.status = 503
        (programs.directory / "outage").touch()
        done = running.result()

    assert programs.store.span_names() == ["refused"]
    assert "acknowledged" in collector.spans()
    (line,) = done.err.splitlines()
    run = programs.store.directories[0].parent.name
    assert (
        f"(code: 503): kept in ./otel-rl/{run}; send them with `otel-rl replay ./otel-rl/{run} --endpoint URL`" in line
    )
    assert "may come twice" not in line
    assert programs.store.manifests()[0]["clean_exit"] is True


REJECTED = ExportTraceServiceResponse()
REJECTED.partial_success.rejected_spans = 2**31
REJECTED.partial_success.error_message = "quota"
FLUSHED = "import otel_rl\nwith otel_rl.tool('t'): pass\nprint(otel_rl.flush(20))\n"
SPANS_ONLY = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason"),
    [
        (
            200,
            {"Content-Type": "text/html"},
            b"<html>log in</html>",
            "answered with an HTML page: is a login in front of",
        ),
        (301, {"Location": "/login"}, b"", "answered with a redirect (301"),
        (200, {"Content-Type": "application/x-protobuf"}, REJECTED.SerializeToString(), "it rejected spans: quota"),
    ],
)
def test_an_answer_that_keeps_nothing_is_no_delivery(
    programs: Programs, status: int, headers: dict[str, str], body: bytes, reason: str
) -> None:
    collector = Collector(status, headers, body)
    try:
        done = programs.instrumented(FLUSHED, **_http(collector, **SPANS_ONLY))
    finally:
        collector.stop()

    assert done.out == "False\n"
    line = done.err.splitlines()[-1]
    assert line.startswith("otel-rl: 2 spans could not be delivered to")
    assert reason in line
    assert "sent to" not in line
    assert programs.store.span_names() == ["execute_tool t"]


def test_items_that_a_grpc_server_rejects_are_no_delivery(programs: Programs) -> None:
    with grpc_server(traces=REJECTED) as port:
        done = programs.instrumented(
            FLUSHED,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_RL_EXIT_TIMEOUT="20",
            **SPANS_ONLY,
        )

    assert done.out == "False\n"
    assert "2 spans could not be delivered to" in done.err.splitlines()[-1]
    assert "it rejected spans: quota" in done.err.splitlines()[-1]


def test_some_rejected_items_are_counted_and_the_others_are_delivered(programs: Programs) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    with grpc_server(traces=answer) as port:
        done = programs.instrumented(
            "import otel_rl\nfor name in 'abc':\n    with otel_rl.tool(name): pass\nprint(otel_rl.flush(20))\n",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_RL_EXIT_TIMEOUT="20",
            **SPANS_ONLY,
        )

    assert done.out == "False\n"
    # One of three, and then the run's own: which one of three was rejected the server does not say.
    assert "recorded 2 spans" in done.err.splitlines()[-1]
    assert programs.store.span_names() == []


def test_a_certificate_that_is_not_trusted_is_named_within_grpc_and_grpc_itself_prints_nothing(
    programs: Programs, tmp_path: Path
) -> None:
    certificate = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1"
    subprocess.run(
        [*command.split(), "-out", certificate[0], "-keyout", certificate[1]], check=True, capture_output=True
    )
    with grpc_server(credentials=grpc_credentials(certificate)) as port:
        done = programs.instrumented(
            FLUSHED + "print('GRPC_VERBOSITY' in __import__('os').environ)\n",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"https://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_RL_EXIT_TIMEOUT="20",
        )

    assert done.out == "False\nFalse\n"
    assert all(line.startswith("otel-rl: ") for line in done.err.splitlines())
    assert "(CERTIFICATE_VERIFY_FAILED)" in done.err.splitlines()[-1]
    assert done.err.rstrip().endswith(
        "set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of the authority that signed the server's certificate"
    )


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf", None])
def test_the_programs_environment_is_never_changed(
    programs: Programs, collector: Collector, protocol: str | None
) -> None:
    watched = """
import os
changed = []
for name in ("__setitem__", "__delitem__"):
    original = getattr(os._Environ, name)
    setattr(os._Environ, name, lambda *given, original=original: (changed.append(given[1]), original(*given))[1])
"""
    destination = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }
    done = programs.instrumented(
        f"{watched}{FLUSHED}print(changed)\n", OTEL_RL_EXIT_TIMEOUT="20", **(destination if protocol else {})
    )

    assert done.out.splitlines()[-1] == "[]"


@pytest.mark.parametrize("context", ["http", "https"])
def test_a_key_in_an_endpoint_is_in_no_line(programs: Programs, context: str, collector: Collector) -> None:
    done = programs.instrumented(
        FLUSHED,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{context}://user:secret@127.0.0.1:{collector.port}/nowhere?api_key=secret",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf" if context == "https" else "grpc",
        OTEL_RL_EXIT_TIMEOUT="20",
        **SPANS_ONLY,
    )

    assert "could not be delivered to" in done.err
    assert "secret" not in done.err


def test_a_run_id_that_is_not_utf_8_costs_no_span(programs: Programs) -> None:
    done = programs.instrumented(
        "import otel_rl\nfor number in (1, 2):\n    with otel_rl.step(number): pass\n", OTEL_RL_RUN_ID="l\udce4uf"
    )

    assert "otel-rl: recorded 5 spans" in done.err
    assert len(programs.store.span_names()) == 4
