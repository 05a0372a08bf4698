"""``otel-rl doctor`` names certificates that do not fit, TLS on one side only, and proxies that do not let pass."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.otlp_servers import EXPORTER_1_45, GRPC, HTTP, grpc_credentials, grpc_server, http_server, ssl_context

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

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


FIX = "cannot be read (No such file or directory); correct the path, or make the file readable for this user"


@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])
def test_each_file_that_cannot_be_read_is_named_by_its_variable_and_its_signals_are_not_asked(
    doctor: Doctor, protocol: dict[str, str]
) -> None:
    problems = doctor(
        "https://collector.invalid:4318",
        OTEL_EXPORTER_OTLP_CERTIFICATE="/gone.pem",
        OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="/client.pem",
        OTEL_EXPORTER_OTLP_CLIENT_KEY="/client.key",
        OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE="/traces.pem",
        **protocol,
    )

    assert sorted(problems) == [
        f"OTEL_EXPORTER_OTLP_CERTIFICATE=/gone.pem {FIX}",
        f"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/client.pem {FIX}",
        f"OTEL_EXPORTER_OTLP_CLIENT_KEY=/client.key {FIX}",
        f"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=/traces.pem {FIX}",
    ]


def test_a_file_of_one_signal_leaves_the_others_asked(doctor: Doctor, certificate: tuple[Path, Path]) -> None:
    with http_server(context=ssl_context(certificate)) as server:
        problems = doctor(
            f"https://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]),
            OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE="/gone.pem",
            **HTTP,
        )

    assert problems == [f"OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE=/gone.pem {FIX}"]
    assert sorted(path for path, _, _ in server.requests) == ["/v1/metrics", "/v1/traces"]


def test_without_tls_the_file_is_named_and_the_destination_is_asked(doctor: Doctor) -> None:
    with http_server(401) as server:
        problems = doctor(f"http://127.0.0.1:{server.port}", OTEL_EXPORTER_OTLP_CLIENT_KEY="/gone.pem", **HTTP)

    assert problems[0] == f"OTEL_EXPORTER_OTLP_CLIENT_KEY=/gone.pem {FIX}"
    assert "wants credentials (401)" in problems[1]


def test_a_folder_of_authorities_is_no_problem_over_http_and_one_over_grpc(
    doctor: Doctor, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = str(tmp_path / "authorities")
    Path(folder).mkdir()
    shutil.copy(certificate[0], folder)
    subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True)
    with http_server(context=ssl_context(certificate)) as server:
        endpoint = f"https://127.0.0.1:{server.port}"
        assert doctor(endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=folder, **HTTP) == []
        (problem,) = doctor(endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=folder, **GRPC)
    assert "cannot be read (Is a directory)" in problem


@pytest.mark.usefixtures("no_variables", "one_library")
def test_files_for_otlp_are_not_looked_at_where_nothing_is_sent(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/gone.pem")
    assert main(["doctor"]) == 0
    assert "gone.pem" not in capsys.readouterr().out


@EXPORTER_1_45
def test_a_bundle_that_is_not_there_is_named_by_its_own_variable(doctor: Doctor, monkeypatch: Any) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/gone.pem")
    (problem,) = doctor("https://collector.invalid:4318", **HTTP)
    assert "the certificate file /gone.pem is not there; correct REQUESTS_CA_BUNDLE" in problem
