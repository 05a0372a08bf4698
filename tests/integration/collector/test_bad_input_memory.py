"""Small requests that decode to much memory, and many connections: the process stays within its limits."""

from __future__ import annotations

import gzip
import resource
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
import pytest
from bad_input import JSON, PROTOBUF, by_command, call, memory, message, neighbour, post
from collector_process import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from collector_process import CollectorProcess

LIMIT_MIB = 512
MOST_MIB = 1.25 * LIMIT_MIB
MEBIBYTE = 1 << 20
SIZE = 16 * MEBIBYTE - 64
FITTING = 1_300_000
"""Bytes of empty spans that take nearly all the memory that a decoded request may."""
DESCRIPTORS, CONNECTIONS = 1024, 1500


def _repeated(leaf: bytes, *fields: int, size: int = SIZE) -> bytes:
    """Return a message that is repeated until it has that size, within fields of these numbers."""
    body = leaf * (size // len(leaf))
    for field in reversed(fields):
        body = message(field, body)
    return body


BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "scopes": ("/v1/traces", PROTOBUF, lambda: _repeated(b"\x12\x00", 1)),
    "spans": ("/v1/traces", PROTOBUF, lambda: _repeated(b"\x12\x00", 1, 2)),
    "attributes": ("/v1/traces", PROTOBUF, lambda: _repeated(b"\x4a\x00", 1, 2, 2)),
    "log records": ("/v1/logs", PROTOBUF, lambda: _repeated(b"\x12\x00", 1, 2)),
    "histogram points": ("/v1/metrics", PROTOBUF, lambda: _repeated(b"\x0a\x00", 1, 2, 2, 9)),
    "exponential histogram points": ("/v1/metrics", PROTOBUF, lambda: _repeated(b"\x0a\x00", 1, 2, 2, 10)),
    "spans in JSON": (
        "/v1/traces",
        JSON,
        lambda: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 5_500_000 + b"{}]}]}]}",
    ),
}


@pytest.fixture(scope="module")
def attacked(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One for all attacks, as it would be in a job: what one of them leaves behind counts for the next."""
    variables = {"OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": str(LIMIT_MIB)}
    folder = tmp_path_factory.mktemp("attacked")
    with by_command(otelcol_rl, folder, ["--role", "local"], **variables) as running:
        yield running


@pytest.fixture
def collector(attacked: CollectorProcess) -> Iterator[CollectorProcess]:
    yield attacked
    name, body = neighbour()
    wait_for(lambda: post(attacked, body)[0] == 200, "it takes data again")
    wait_for(lambda: name in attacked.text("traces"), "the good request after the bad ones is written")


def test_messages_that_would_take_gigabytes_are_refused_with_what_to_do(collector: CollectorProcess):
    for name, (path, kind, build) in BOMBS.items():
        body = build()
        status, answer = post(collector, gzip.compress(body, 6), path=path, kind=kind, encoding="gzip")
        assert (status, "OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB" in answer) == (413, True), (name, answer)
    code, details = call(collector, BOMBS["spans"][2](), grpc.Compression.Gzip)
    assert (code, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in details) == ("RESOURCE_EXHAUSTED", True), details
    assert memory(collector) < MOST_MIB


@pytest.mark.parametrize("size", [SIZE, FITTING], ids=["too much each", "too much together"])
def test_hostile_requests_at_once_stay_within_the_memory_limit(collector: CollectorProcess, size: int):
    body = _repeated(b"\x12\x00", 1, 2, size=size)
    packed = gzip.compress(body, 6)
    with ThreadPoolExecutor(12) as pool:
        over_http = [
            pool.submit(post, collector, packed, kind=PROTOBUF, encoding="gzip", path="/v1/traces") for _ in range(8)
        ]
        over_grpc = [pool.submit(call, collector, body, grpc.Compression.Gzip) for _ in range(4)]
    assert {each.result()[0] for each in over_http} <= {200, 413, 503}
    assert {each.result()[0] for each in over_grpc} <= {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
    assert memory(collector) < MOST_MIB


def test_a_large_honest_batch_passes(collector: CollectorProcess):
    attribute = message(9, message(1, b"rl.some.attribute") + message(2, message(1, b"some value of the step")))
    span = message(2, message(1, b"1" * 16) + message(2, b"2" * 8) + message(5, b"rl.rank.step") + attribute * 10)
    body = message(1, message(2, span * (12 * MEBIBYTE // len(span))))
    assert post(collector, gzip.compress(body, 1), kind=PROTOBUF, encoding="gzip")[0] == 200
    assert call(collector, body, grpc.Compression.Gzip) == ("OK", "")


def test_requests_that_are_sent_slowly_hold_no_more_memory_than_there_is(collector: CollectorProcess):
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {SIZE}\r\n\r\n".encode()
    with ExitStack() as stack, ThreadPoolExecutor(40) as pool:

        def begin() -> None:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", collector.http_port), timeout=300))
            connection.sendall(head + bytes(SIZE - 1))

        for begun in [pool.submit(begin) for _ in range(40)]:
            begun.result()
        assert memory(collector) < MOST_MIB


def test_idle_connections_give_their_descriptors_back(otelcol_rl: Path, tmp_path: Path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    limited = by_command(otelcol_rl, tmp_path, ["--role", "local"])
    limited.command = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *limited.command]
    with limited as running:
        assert "this process may open few files and connections" in running.log()
        for port in (running.http_port, int(running.environment["OTEL_RL_COLLECTOR_GRPC_PORT"])):
            with ExitStack() as stack:
                for _ in range(CONNECTIONS):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
                wait_for(lambda: _ready(running) and _takes(running), f"health and data answer again, {port}")


def test_a_low_soft_limit_of_descriptors_is_raised(otelcol_rl: Path, tmp_path: Path):
    low = by_command(otelcol_rl, tmp_path, ["--role", "local"])
    low.command = ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", *low.command]
    with low as running:
        assert running.process is not None
        soft, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        assert soft >= hard - 1 > 256  # Go keeps one below


def _ready(running: CollectorProcess) -> bool:
    try:
        with urllib.request.urlopen(f"{running.health_url}ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _takes(running: CollectorProcess) -> bool:
    try:
        return post(running, neighbour()[1])[0] == 200
    except OSError:
        return False
