"""``otel-rl doctor`` names certificates that do not fit, TLS on one side only, and proxies that do not let pass."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from support.otlp_servers import EXPORTER_1_45, GRPC, HTTP, grpc_credentials, grpc_server, http_server, ssl_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Doctor = Callable[..., list[str]]


def test_a_certificate_that_is_not_trusted_names_the_variable(doctor: Doctor, certificate: tuple[Path, Path]) -> None:
    with http_server(context=ssl_context(certificate)) as server:
        endpoint = f"https://127.0.0.1:{server.port}"
        (problem,) = doctor(endpoint, **HTTP)
        trusted = doctor(endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]), **HTTP)

    assert "has a certificate that is not trusted here; set OTEL_EXPORTER_OTLP_CERTIFICATE" in problem
    assert trusted == []


@EXPORTER_1_45
def test_a_bundle_that_wins_over_the_certificate_is_named(
    doctor: Doctor, monkeypatch: Any, certificate: tuple[Path, Path]
) -> None:
    monkeypatch.setenv(
        "REQUESTS_CA_BUNDLE", ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    )
    with http_server(context=ssl_context(certificate)) as server:
        (problem,) = doctor(
            f"https://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]),
            **HTTP,
        )

    assert "unset REQUESTS_CA_BUNDLE, which wins over it" in problem


def test_tls_to_a_server_without_it_and_the_reverse_are_told_apart(
    doctor: Doctor, certificate: tuple[Path, Path]
) -> None:
    with http_server() as server:
        (problem,) = doctor(f"https://127.0.0.1:{server.port}", **HTTP)
    assert "speaks no TLS; begin the endpoint with http://" in problem

    with http_server(context=ssl_context(certificate)) as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **HTTP)
    assert "where it speaks TLS, begin the endpoint with https://" in problem

    with http_server(400, body=b"Client sent an HTTP request to an HTTPS server.\n") as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **HTTP)
    assert "speaks TLS (400); begin the endpoint with https://" in problem


def test_a_proxy_that_does_not_answer_is_named(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (problem,) = doctor("http://collector.invalid:4318", HTTP_PROXY=f"http://127.0.0.1:{port}", **HTTP)

    assert "is reached through a proxy that does not let the request pass" in problem
    assert "NO_PROXY" in problem


@pytest.mark.parametrize("status", [403, 407, 502])
def test_what_a_proxy_answers_is_said_to_come_from_it(doctor: Doctor, status: int) -> None:
    with http_server(status) as proxy:
        problems = doctor("http://collector.invalid:4318", HTTP_PROXY=f"http://127.0.0.1:{proxy.port}", **HTTP)

    for problem in problems:
        assert f"({status})" in problem
        assert "the answer came through a proxy" in problem
        assert "NO_PROXY" in problem


def test_a_proxy_that_refuses_a_tunnel_is_named(doctor: Doctor) -> None:
    with http_server(407) as proxy:
        (problem,) = doctor("https://collector.invalid:4318", HTTPS_PROXY=f"http://127.0.0.1:{proxy.port}", **HTTP)

    assert "is reached through a proxy that does not let the request pass" in problem
    assert "407" in problem


def test_grpc_with_a_certificate_that_is_not_trusted_names_the_variable(
    doctor: Doctor, certificate: tuple[Path, Path]
) -> None:
    with grpc_server(credentials=grpc_credentials(certificate)) as port:
        endpoint = f"https://127.0.0.1:{port}"
        (problem,) = doctor(endpoint, **GRPC)
        trusted = doctor(endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]), **GRPC)

    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in problem
    assert trusted == []


def test_a_certificate_file_that_is_not_there_is_named(doctor: Doctor) -> None:
    with http_server() as server:
        problems = doctor(
            f"https://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE="/gone.pem",
            **HTTP,
        )

    assert "/gone.pem" in problems[0]
