"""Requests that are wrong as a whole: each is refused with a message, and what comes next is delivered."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import grpc
import pytest
from bad_input import (
    JSON,
    PROTOBUF,
    by_command,
    call,
    export,
    memory,
    neighbour,
    nested_json,
    nested_protobuf,
    post,
)
from collector_process import CollectorProcess, wait_for
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from otlp import log_resource, metric_resource, span, trace_resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEBIBYTE = 1 << 20
LIMIT = 16 * MEBIBYTE
MEMORY_LIMIT_MIB = 512
BOMB = gzip.compress(bytes(400 * MEBIBYTE), 9)
UNBOUNDED = ("zstd", "lz4", "snappy")
"""Encodings whose decoders take memory that nobody reserves."""
WIDE_WINDOW = bytes.fromhex("28b52ffd 00 98 110000 0a00")
"""An empty request in zstd that asks for a window of 512 MiB."""


@pytest.fixture(scope="module")
def collector(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    folder = tmp_path_factory.mktemp("bad-requests")
    with by_command(otelcol_rl, folder, ["--role", "local"]) as running:
        yield running


@pytest.fixture(autouse=True)
def the_next_request_is_delivered(collector: CollectorProcess) -> Iterator[None]:
    yield
    name, body = neighbour()
    assert post(collector, body) == (200, '{"partialSuccess":{}}')
    wait_for(lambda: name in collector.text("traces"), "the good request after the bad one is written")
    assert memory(collector) < MEMORY_LIMIT_MIB
    assert "panic" not in collector.log()


def _metrics() -> dict[str, object]:
    return {"resourceMetrics": [metric_resource("rl.reward", 1.0)]}


def _logs() -> dict[str, object]:
    return {"resourceLogs": [log_resource([{"body": {"stringValue": "hello"}}])]}


def _old_traces() -> bytes:
    group = trace_resource([span("old")])
    (scope,) = group.pop("scopeSpans")
    group["instrumentationLibrarySpans"] = [{"instrumentationLibrary": scope["scope"], "spans": scope["spans"]}]
    return json.dumps({"resourceSpans": [group]}).encode()


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/traces", json.dumps(_metrics()).encode(), "send it to /v1/metrics"),
        ("/v1/traces", json.dumps(_logs()).encode(), "send it to /v1/logs"),
        ("/v1/metrics", export([span("misplaced")]), "send it to /v1/traces"),
        ("/v1/logs", export([span("misplaced")]), "send it to /v1/traces"),
        ("/v1/traces", b'{"batch": [{"name": "not OTLP"}]}', "no field resourceSpans"),
        ("/v1/traces", _old_traces(), "update the sender"),
    ],
    ids=["metrics", "logs", "traces as metrics", "traces as logs", "no OTLP", "OTLP 0.7"],
)
def test_json_of_another_signal_or_version_is_refused_and_told_where_it_belongs(
    collector: CollectorProcess, path: str, body: bytes, says: str
):
    status, answer = post(collector, body, path=path)
    assert status == 400
    assert says in json.loads(answer)["message"]


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_protobuf_of_another_signal_is_refused(collector: CollectorProcess, path: str):
    others = {
        "/v1/metrics": json_format.ParseDict(_metrics(), ExportMetricsServiceRequest()).SerializeToString(),
        "/v1/logs": json_format.ParseDict(_logs(), ExportLogsServiceRequest()).SerializeToString(),
    }
    for other, body in others.items():
        if other != path:
            status, answer = post(collector, body, path=path, kind=PROTOBUF)
            assert status == 400, (path, other, answer)


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status", "says"),
    [
        (os.urandom(300), PROTOBUF, None, 400, ""),
        (b'{"resourceSpans": [{', JSON, None, 400, "the request is no JSON: unexpected end"),
        (export([span("x")]), PROTOBUF, None, 400, "wire types 3 and 4"),
        (export([span("x")]), "text/plain", None, 415, "supported: [application/json, application/x-protobuf]"),
        (export([span("x")]), None, None, 415, "supported: [application/json, application/x-protobuf]"),
        (export([span("x")]), JSON, "br", 400, "unsupported Content-Encoding: br"),
        *((WIDE_WINDOW, PROTOBUF, name, 400, f"unsupported Content-Encoding: {name}") for name in UNBOUNDED),
        (export([span("x")]), JSON, "gzip", 400, "gzip: invalid header"),
        (export([{**span("x"), "traceId": "abcd"}]), JSON, None, 400, "length mismatch"),
        (export([{**span("x"), "startTimeUnixNano": "-5"}]), JSON, None, 400, "invalid syntax"),
    ],
    ids=[
        *("random bytes", "cut off", "JSON as protobuf", "wrong type", "no type"),
        *("unknown encoding", *UNBOUNDED, "not compressed", "short trace id", "negative time"),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    collector: CollectorProcess, body: bytes, kind: str | None, encoding: str | None, status: int, says: str
):
    answered, answer = post(collector, body, kind=kind, encoding=encoding)
    assert answered == status
    assert says in answer


def test_unknown_paths_and_methods_are_refused(collector: CollectorProcess):
    assert post(collector, export([span("x")]), path="/v2/traces")[0] == 404
    assert post(collector, b"", method="GET") == (405, "405 method not allowed, supported: [POST]")


def test_fields_of_a_newer_version_are_passed_over(collector: CollectorProcess):
    body = export([{**span("newer-version"), "fieldOfTheFuture": {"a": [1]}}])
    assert post(collector, body)[0] == 200
    wait_for(lambda: "newer-version" in collector.text("traces"), "the span is written")


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_a_small_body_that_decompresses_to_hundreds_of_megabytes_is_refused(collector: CollectorProcess, kind: str):
    status, answer = post(collector, BOMB, kind=kind, encoding="gzip")
    assert status == 413
    assert "larger than 16 MiB" in answer
    assert "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in answer


def test_over_grpc_a_bomb_is_refused(collector: CollectorProcess):
    code, details = call(collector, bytes(100 * MEBIBYTE), grpc.Compression.Gzip)
    assert code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in details


def _request_of(size: int) -> bytes:
    """Return a protobuf request of exactly that many bytes with one span."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def built(characters: int) -> bytes:
        request = {"resourceSpans": [trace_resource([span(f"large-{size}", {"note": "a" * characters})])]}
        message = json_format.ParseDict(request, ExportTraceServiceRequest())
        added = message.resource_spans[0].scope_spans[0].spans[0]
        added.trace_id, added.span_id = os.urandom(16), os.urandom(8)
        return bytes(message.SerializeToString())

    body = built(size - (len(built(size)) - size))
    assert len(body) == size
    return body


def test_http_takes_a_span_just_under_the_limit_and_refuses_one_just_over(collector: CollectorProcess):
    assert post(collector, _request_of(LIMIT), kind=PROTOBUF)[0] == 200
    wait_for(lambda: f"large-{LIMIT}" in collector.text("traces"), "the large span is written")
    status, answer = post(collector, _request_of(LIMIT + 1), kind=PROTOBUF)
    assert status == 413
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in answer


def test_grpc_takes_a_span_just_under_the_limit_and_refuses_one_just_over(collector: CollectorProcess):
    assert call(collector, _request_of(LIMIT - 1)) == ("OK", "")
    wait_for(lambda: f"large-{LIMIT - 1}" in collector.text("traces"), "the large span is written")
    code, details = call(collector, _request_of(LIMIT + 1))
    assert code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in details


def test_a_span_of_64_megabytes_is_refused_by_both_protocols(collector: CollectorProcess):
    body = _request_of(64 * MEBIBYTE)
    # The answer comes before the body was read; a sender that does not look for it sees a closed connection.
    assert post(collector, body, kind=PROTOBUF)[0] in (413, 0)
    assert call(collector, body)[0] == "RESOURCE_EXHAUSTED"
    assert post(collector, gzip.compress(body, 1), kind=PROTOBUF, encoding="gzip")[0] == 413
    assert f"large-{64 * MEBIBYTE}" not in collector.text("traces")


@pytest.mark.parametrize("levels", [200, 500_000])
def test_values_nested_too_deep_are_refused_before_they_take_the_stack(collector: CollectorProcess, levels: int):
    says = "send it flat, or as JSON text"
    status, answer = post(collector, nested_json(levels), kind=JSON)
    assert (status, says in answer) == (400, True)
    status, answer = post(collector, nested_protobuf(levels), kind=PROTOBUF)
    assert (status, says in answer) == (400, True)
    code, details = call(collector, nested_protobuf(levels))
    assert (code, says in details) == ("INVALID_ARGUMENT", True)


def test_refused_requests_are_counted(collector: CollectorProcess):
    import urllib.request

    assert post(collector, nested_json(200))[0] == 400
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    counted = [line for line in lines if line.startswith("otelcol_request_guard_refused_requests")]
    assert any('reason="nested_too_deep"' in line for line in counted), counted
