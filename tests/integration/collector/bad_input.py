"""Requests that no OTLP sender should make, and the collector's answers to them."""

from __future__ import annotations

import http.client
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import shipped_settings
from collector_process import CollectorProcess
from otlp import span, trace_resource

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = Path(sys.executable).parent / "otel-rl"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LARGEST_GRPC = 256 << 20


def by_command(binary: Path, folder: Path, arguments: Sequence[str], **environment: str) -> CollectorProcess:
    """Return a collector that is started by `otel-rl collector run`."""
    process = CollectorProcess(binary, [], folder, {"OTEL_RL_COLLECTOR_BINARY": str(binary), **environment})
    process.command = [str(COMMAND), "collector", "run", *arguments]
    if process.settings:
        file = folder / "own.yaml"
        file.write_text(shipped_settings.as_file(process.settings))
        process.command += ["--with-file", str(file)]
    return process


def export(spans: list[dict[str, Any]], **resource: Any) -> bytes:
    """Return a trace request in OTLP JSON."""
    return json.dumps({"resourceSpans": [trace_resource(spans, **resource)]}).encode()


def post(
    collector: CollectorProcess,
    body: bytes,
    *,
    path: str = "/v1/traces",
    kind: str | None = JSON,
    encoding: str | None = None,
    method: str = "POST",
) -> tuple[int, str]:
    """Send one request over HTTP; returns the status, 0 where the connection was closed, and the text of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=300)
    headers = {
        name: value for name, value in (("Content-Type", kind), ("Content-Encoding", encoding)) if value is not None
    }
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (ConnectionError, http.client.HTTPException) as error:
        return 0, repr(error)
    finally:
        connection.close()


def call(collector: CollectorProcess, body: bytes, compression: Any = None) -> tuple[str, str]:
    """Send one request over gRPC; returns the name of the status and the text of the answer."""
    port = collector.environment["OTEL_RL_COLLECTOR_GRPC_PORT"]
    options = [("grpc.max_send_message_length", LARGEST_GRPC)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options, compression=compression) as channel:
        try:
            channel.unary_unary(EXPORT)(body, timeout=300)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
    return "OK", ""


def neighbour() -> tuple[str, bytes]:
    """Return a good request and the name of the span in it."""
    name = f"neighbour-{os.urandom(6).hex()}"
    return name, export([span(name)])


def memory(collector: CollectorProcess, field: str = "VmHWM") -> float:
    """Return the most memory that the process held so far (VmHWM) or what it holds now (VmRSS), in MiB."""
    assert collector.process is not None
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field))


def nested_json(levels: int) -> bytes:
    """Return a trace request with one attribute nested in that many lists."""
    value = b'{"arrayValue":{"values":[' * levels + b'{"stringValue":"x"}' + b"]}}" * levels
    return export([span("nested", {"deep": "PLACE"})]).replace(b'{"stringValue": "PLACE"}', value)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def message(field: int, content: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def nested_protobuf(levels: int) -> bytes:
    """Return a trace request with one attribute nested in that many lists, written from the inside outwards."""
    parts, size = [message(1, b"x")], 3
    for _ in range(levels):
        for field in (1, 5):  # ArrayValue.values, AnyValue.array_value
            head = bytes([field << 3 | 2]) + _varint(size)
            parts.append(head)
            size += len(head)
    attribute = message(1, b"deep") + message(2, b"".join(reversed(parts)))
    built = message(1, os.urandom(16)) + message(2, os.urandom(8)) + message(5, b"nested") + message(9, attribute)
    return message(1, message(2, message(2, built)))
