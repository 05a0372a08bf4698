"""``otel-rl doctor`` asks a destination over gRPC, and names the status or the wrong protocol."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import grpc
import pytest
from support.otlp_servers import GRPC, HTTP, grpc_server, http_server

if TYPE_CHECKING:
    from collections.abc import Callable

    Doctor = Callable[..., list[str]]


def test_http_to_a_server_of_grpc_names_the_protocol(doctor: Doctor) -> None:
    with grpc_server() as port:
        (problem,) = doctor(f"http://127.0.0.1:{port}", **HTTP)

    assert "does not speak HTTP" in problem
    assert "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in problem


def test_grpc_that_takes_the_request_is_no_problem(doctor: Doctor) -> None:
    with grpc_server() as port:
        assert doctor(f"http://127.0.0.1:{port}", **GRPC) == []


@pytest.mark.parametrize(
    ("code", "meaning", "fix"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "wants credentials", "set OTEL_EXPORTER_OTLP_HEADERS"),
        (
            grpc.StatusCode.PERMISSION_DENIED,
            "does not let them write traces",
            "use others in OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (grpc.StatusCode.INVALID_ARGUMENT, "refuses the request", "INVALID_ARGUMENT: said the server"),
    ],
)
def test_a_grpc_status_is_named_with_its_fix(doctor: Doctor, code: grpc.StatusCode, meaning: str, fix: str) -> None:
    with grpc_server(code) as port:
        problems = doctor(f"http://127.0.0.1:{port}", **GRPC)

    assert any(meaning in problem for problem in problems)
    assert all(fix in problem and code.name in problem for problem in problems)


def test_a_grpc_server_without_otlp_is_told(doctor: Doctor) -> None:
    with grpc_server(services=False) as port:
        problems = doctor(f"http://127.0.0.1:{port}", **GRPC)

    assert "speaks gRPC and takes no OTLP traces" in problems[0]


def test_grpc_to_a_server_of_http_names_the_protocol(doctor: Doctor) -> None:
    with http_server() as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **GRPC)

    assert "speaks HTTP and not gRPC; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in problem


def test_grpc_that_nobody_listens_to_is_told_in_one_sentence(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (problem,) = doctor(f"http://127.0.0.1:{port}", **GRPC)

    assert "does not answer; start a collector there" in problem
    assert "refused" in problem


def test_the_user_in_an_address_that_grpc_quotes_is_not_printed(doctor: Doctor) -> None:
    (problem,) = doctor("http://user:s3cret@127.0.0.1:4317", **GRPC)

    assert "does not answer" in problem
    assert "s3cret" not in problem
