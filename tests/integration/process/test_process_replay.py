"""``otel-rl replay``: the files of a real run, sent to receivers that answer, fail, and go away in the middle."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from loopback_ports import free_ports
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from process_support import SCRIPTS, Finished, Programs
from support import compressed_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from warm_launcher import WarmLauncher

#: Enough for several requests.
PROGRAM = """
import otel_rl
for number in range(30):
    with otel_rl.step(number):
        for _ in range(20):
            with otel_rl.rollout():
                with otel_rl.tool("calculate"): pass
                otel_rl.reward("right", number / 30)
        otel_rl.flush(5)
"""
Answer = tuple[int, dict[str, str], bytes]
TAKEN: Answer = (200, {}, b"")


class Receiver:
    """An OTLP/HTTP receiver that keeps what it takes; ``answer`` gives its answer to each request, None closes."""

    def __init__(self, port: int, answer: Callable[[int, str], Answer | None]) -> None:
        self.spans: Counter[bytes] = Counter()
        self.records: Counter[bytes] = Counter()
        self.times: dict[bytes, int] = {}
        self.headers: dict[str, str] = {}
        self.number = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.number += 1
                outer.headers = {key.lower(): value for key, value in self.headers.items()}
                given = answer(outer.number, self.path)
                if given is None or given == TAKEN:
                    outer.take(self.path, body)
                if given is None:
                    self.close_connection = True
                    return
                status, headers, content = given
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in trace_service_pb2.ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self.spans[span.span_id] += 1
                        self.times[span.span_id] = span.start_time_unix_nano
        elif path == "/v1/logs":
            for resource in logs_service_pb2.ExportLogsServiceRequest.FromString(body).resource_logs:
                for scope in resource.scope_logs:
                    self.records.update(record.SerializeToString() for record in scope.log_records)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(port: int = 0, answer: Callable[[int, str], Answer | None] = lambda *_: TAKEN) -> Iterator[Receiver]:
    receiver = Receiver(port, answer)
    try:
        yield receiver
    finally:
        receiver.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, launcher: WarmLauncher | None) -> Path:
    """What a run has written."""
    programs = Programs(tmp_path_factory.mktemp("recorded"), launcher)
    assert programs.instrumented(PROGRAM, OTEL_RL_RUN_ID="recorded").code == 0
    return programs.store.root


@pytest.fixture
def run(programs: Programs, files: Path) -> Programs:
    """A recorded run of which nothing has been sent."""
    shutil.copytree(files, programs.store.root)
    return programs


def replay(run: Programs, port: int, *arguments: str, **environ: str) -> Finished:
    command = ("replay", "--endpoint", f"http://127.0.0.1:{port}", *arguments)
    return run.otel_rl(*command, **{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", **environ})


def recorded(run: Programs) -> dict[bytes, int]:
    return {bytes.fromhex(span["spanId"]): int(span["startTimeUnixNano"]) for span in run.store.spans()}


def records(run: Programs) -> int:
    lines = [json.loads(line) for path in run.store.root.glob("*/*/logs*.jsonl") for line in path.open()]
    scopes = [scope for line in lines for resource in line["resourceLogs"] for scope in resource["scopeLogs"]]
    return sum(len(scope["logRecords"]) for scope in scopes)


def ledger(run: Programs) -> list[dict[str, Any]]:
    (path,) = run.store.root.glob("recorded/replay-*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_item_arrives_once_with_its_time(run: Programs) -> None:
    with receiving() as receiver:
        done = replay(run, receiver.port, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20token")
        again = replay(run, receiver.port)

    assert (done.code, again.code) == (0, 0), done.err
    assert f" {len(recorded(run))} spans of run recorded" in done.out
    assert receiver.times == recorded(run)
    assert set(receiver.spans.values()) == {1}
    assert sum(receiver.records.values()) == records(run)
    assert receiver.headers["authorization"] == "Bearer token"
    assert "acknowledged nothing more" in again.out


def test_receiver_that_dies_in_the_middle(run: Programs) -> None:
    def dying(_: int, path: str) -> Answer | None:
        return None if path == "/v1/traces" else TAKEN

    with receiving(answer=dying) as first:
        stopped = replay(run, first.port, "--wait", "0")
        port = first.port
    with receiving(port) as second:
        done = replay(run, port)

    assert (stopped.code, done.code) == (1, 0), done.err
    assert "Run the same command again to go on" in stopped.err
    arrived = first.spans + second.spans
    assert set(arrived) == set(recorded(run))
    # The request without an answer: taken twice, and said so.
    ambiguous = sum(count - 1 for count in (arrived + first.records + second.records).values())
    assert ambiguous > 0
    assert "may be there twice" in done.err
    assert max(arrived.values()) <= 2


def test_killed_replay_goes_on(run: Programs) -> None:
    def slow(*_: Any) -> Answer:
        time.sleep(0.3)
        return TAKEN

    with receiving(answer=slow) as receiver:
        process = subprocess.Popen(
            [SCRIPTS / "otel-rl", "replay", "--endpoint", f"http://127.0.0.1:{receiver.port}"],
            cwd=run.directory,
            env=run.environ | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        )
        while receiver.number < 2:
            time.sleep(0.01)
        process.kill()
        process.wait()
        acknowledged = sum(entry.get("state") == "acknowledged" for entry in ledger(run))
        done = replay(run, receiver.port)

    assert acknowledged >= 1
    assert done.code == 0
    assert set(receiver.spans) == set(recorded(run))


@pytest.mark.parametrize("status", [429, 503])
def test_overloaded_receiver_is_asked_again(run: Programs, status: int) -> None:
    def overloaded(number: int, _: str) -> Answer:
        return (status, {"Retry-After": "1"}, b"") if number in (1, 3) else TAKEN

    with receiving(answer=overloaded) as receiver:
        done = replay(run, receiver.port)

    assert done.code == 0
    assert set(receiver.spans.values()) == {1}
    assert "twice" not in done.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "web page"),
        ((302, {"Location": "https://login.example/"}, b""), "redirects"),
        ((401, {}, b""), "wants credentials"),
        ((404, {}, b""), "takes no OTLP at this path"),
    ],
)
def test_what_takes_nothing_is_no_delivery(run: Programs, answer: Answer, said: str) -> None:
    with receiving(answer=lambda *_: answer) as receiver:
        done = replay(run, receiver.port)
    with receiving() as receiver:
        after = replay(run, receiver.port)

    assert done.code == 1
    assert "has acknowledged nothing of run recorded" in done.out
    assert said in done.err
    assert after.code == 0
    assert set(receiver.spans) == set(recorded(run))


def test_partial_success_is_counted_and_not_sent_again(run: Programs) -> None:
    rejecting = trace_service_pb2.ExportTraceServiceResponse()
    rejecting.partial_success.rejected_spans = 7
    rejecting.partial_success.error_message = "too old"
    body = rejecting.SerializeToString()

    def answer(_: int, path: str) -> Answer:
        return (200, {"Content-Type": "application/x-protobuf"}, body) if path == "/v1/traces" else TAKEN

    with receiving(answer=answer) as receiver:
        done = replay(run, receiver.port)
        again = replay(run, receiver.port)

    assert done.code == 1
    assert "spans rejected (it rejected spans: too old)" in done.err
    assert again.code == 0
    assert "acknowledged nothing more" in again.out


def test_line_that_is_still_being_written_is_left(run: Programs) -> None:
    (path,) = run.store.root.glob("recorded/*/traces-0001.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with receiving() as receiver:
        part = replay(run, receiver.port)
        path.write_bytes(whole)
        rest = replay(run, receiver.port)

    assert (part.code, rest.code) == (0, 0)
    assert "cut off" in part.err
    assert receiver.times == recorded(run)
    assert set(receiver.spans.values()) == {1}


def test_a_file_that_is_compressed_when_half_of_it_is_sent(run: Programs) -> None:
    expected, number = recorded(run), records(run)

    with receiving(answer=lambda request, _: TAKEN if request == 1 else (503, {}, b"")) as first:
        stopped = replay(run, first.port, "--wait", "0", "--signal", "traces")
        port = first.port
    assert 0 < len(first.spans) < len(expected)
    for path in run.store.root.glob("recorded/*/*-0001.jsonl"):
        compressed_store.compress(path)
    with receiving(port) as second:
        done = replay(run, port)
        again = replay(run, port)

    assert (stopped.code, done.code, again.code) == (1, 0, 0), done.err
    assert set(first.spans + second.spans) == set(expected)
    assert set((first.spans + second.spans).values()) == {1}
    assert sum(second.records.values()) == number
    assert "acknowledged nothing more" in again.out
    assert "twice" not in done.err


def test_one_signal_then_the_others(run: Programs) -> None:
    with receiving() as receiver:
        assert replay(run, receiver.port, "--signal", "traces").code == 0
        assert not receiver.records
        assert replay(run, receiver.port).code == 0

    assert receiver.records
    assert set(receiver.spans.values()) == {1}


def test_grpc(run: Programs) -> None:
    spans: Counter[bytes] = Counter()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name
            spans.update(s.span_id for r in request.resource_spans for scope in r.scope_spans for s in scope.spans)
            return trace_service_pb2.ExportTraceServiceResponse()

    class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name
            return metrics_service_pb2.ExportMetricsServiceResponse()

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name
            return logs_service_pb2.ExportLogsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        done = replay(run, port, "--protocol", "grpc")
    finally:
        server.stop(None).wait()
    away = replay(run, free_ports(1)[0], "--protocol", "grpc", "--wait", "0")

    assert done.code == 0, done.err
    assert set(spans) == set(recorded(run))
    assert set(spans.values()) == {1}
    assert away.code == 1
    assert "does not answer" in away.err


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_where_nothing_listens_from_the_start_it_is_said_at_once(run: Programs, protocol: str) -> None:
    away = replay(run, free_ports(1)[0], "--protocol", protocol)

    assert away.code == 1
    assert "does not answer" in away.err
    assert "start a collector there" in away.err
    # Seconds that it has waited would be named.
    assert " s. " not in away.err
    assert away.err.endswith("Run the same command again to go on; --wait SECONDS waits until it listens.\n")


@pytest.mark.parametrize("waits", [(), ("--wait", "600")])
def test_a_port_of_another_protocol_is_told_at_once_whatever_the_wait(run: Programs, waits: tuple[str, ...]) -> None:
    server = grpc.server(ThreadPoolExecutor(2))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        to_grpc = replay(run, port, "--protocol", "http/protobuf", *waits)
    finally:
        server.stop(None).wait()
    with receiving() as receiver:
        to_http = replay(run, receiver.port, "--protocol", "grpc", *waits)

    assert "does not speak HTTP" in to_grpc.err
    assert "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or send to the HTTP port, mostly 4318" in to_grpc.err
    assert "speaks HTTP and not gRPC" in to_http.err
    assert "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or send to the gRPC port, mostly 4317" in to_http.err
    for stopped in (to_grpc, to_http):
        assert stopped.code == 1
        assert " s. " not in stopped.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--endpoint", "http://127.0.0.1:4318/v1/traces"], "give the address without /v1/"),
        (["--endpoint", "ftp://127.0.0.1:4318"], "write it as http://HOST:PORT"),
        (["--endpoint", "http://user:secret@:x"], "write it as http://HOST:PORT"),
        ([], "give --endpoint"),
        (["elsewhere", "--endpoint", "http://127.0.0.1:4318"], "no such folder"),
    ],
)
def test_wrong_input_says_what_to_do(programs: Programs, arguments: list[str], said: str) -> None:
    done = programs.otel_rl("replay", *arguments)

    assert done.code == 2
    assert done.err.startswith("otel-rl replay: ")
    assert said in done.err
    assert "secret" not in done.err
