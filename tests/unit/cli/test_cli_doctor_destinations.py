"""``otel-rl doctor`` sends a real empty OTLP request per signal, and names what is wrong with its destination."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint, version
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from otel_rl.cli import main
from otel_rl.cli.doctor import installed_instrumentors
from otel_rl.cli.doctor.installed_instrumentors import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIGNALS = ("logs", "metrics", "traces")
#: Ends of variables that decide how requests go out.
_NAMES = ("_PROXY", "_CA_BUNDLE")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_") or name.upper().endswith(_NAMES)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    entry_point = EntryPoint("otel_rl_openai", "otel_rl.instrumentors.openai:OpenAIInstrumentor", "group")
    monkeypatch.setattr(installed_instrumentors, "entry_points", lambda group: [entry_point])


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
def _http(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"", context: ssl.SSLContext | None = None
) -> Iterator[HTTPServer]:
    server = HTTPServer(status, headers or {}, body, context)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _grpc(code: grpc.StatusCode | None = None, credentials: Any = None, *, services: bool = True) -> Iterator[int]:
    """A gRPC server that takes OTLP, or answers ``code``; yields its port."""

    def respond(answer: Any) -> Any:
        def export(request: Any, context: grpc.ServicerContext) -> Any:
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
        trace.Export = respond(trace_service_pb2.ExportTraceServiceResponse())
        metrics.Export = respond(metrics_service_pb2.ExportMetricsServiceResponse())
        logs.Export = respond(logs_service_pb2.ExportLogsServiceResponse())
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(trace, server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, server)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(logs, server)
    add = server.add_insecure_port if credentials is None else server.add_secure_port
    port = add(*(["127.0.0.1:0"] if credentials is None else ["127.0.0.1:0", credentials]))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "certificate.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def _context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def _credentials(certificate: tuple[Path, Path]) -> Any:
    return grpc.ssl_server_credentials([(certificate[1].read_bytes(), certificate[0].read_bytes())])


def _doctor(monkeypatch: Any, capfd: Any, endpoint: str, **environ: str) -> list[str]:
    """Problems that doctor finds; the exit code and the text agree with them, and nothing is printed beside."""
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **environ}.items():
        monkeypatch.setenv(name, value)
    code = main(["doctor", "--json"])
    captured = capfd.readouterr()
    # gRPC's core prints here, because this process has loaded it before doctor could ask it not to.
    assert [line for line in captured.err.splitlines() if "ssl_transport_security" not in line] == []
    problems: list[str] = json.loads(captured.out)["problems"]
    assert code == (1 if problems else 0)
    return problems


#: opentelemetry-exporter-otlp-proto-http 1.44 follows redirects, and its certificate wins over REQUESTS_CA_BUNDLE.
EXPORTER_1_45 = pytest.mark.skipif(
    version("opentelemetry-exporter-otlp-proto-http").startswith("1.44"), reason="the exporter behaves otherwise"
)
HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


def test_each_signal_is_sent_an_empty_request_with_the_headers_of_a_run(monkeypatch: Any, capfd: Any) -> None:
    with _http() as server:
        problems = _doctor(
            monkeypatch,
            capfd,
            f"http://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20token",
            **HTTP,
        )

    assert problems == []
    assert sorted(path for path, _, _ in server.requests) == [f"/v1/{signal}" for signal in SIGNALS]
    for _, headers, body in server.requests:
        assert (headers["authorization"], headers["content-type"], body) == (
            "Bearer token",
            "application/x-protobuf",
            b"",
        )


@pytest.mark.parametrize(
    ("status", "meaning", "fix"),
    [
        (400, "request is malformed (400)", "https"),
        (401, "wants credentials (401)", "set OTEL_EXPORTER_OTLP_HEADERS"),
        (403, "does not let them write", "use others in OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "takes no OTLP at this path (404)", "is an address without /v1/"),
        (405, "takes no POST there", "a collector's OTLP port is mostly 4318"),
        (413, "refuses requests of this size (413)", "raise its limit"),
        (415, "does not take protobuf (415)", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
        (500, "overloaded or not ready (500)", "look at its log"),
        (418, "refuses the request (418)", ""),
    ],
)
def test_an_http_status_is_named_with_its_fix(
    monkeypatch: Any, capfd: Any, status: int, meaning: str, fix: str
) -> None:
    with _http(status) as server:
        problems = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)

    assert problems
    for problem in problems:
        assert f"http://127.0.0.1:{server.port} " in problem
        assert meaning in problem
        assert fix in problem


def test_signals_with_the_same_problem_share_a_sentence(monkeypatch: Any, capfd: Any) -> None:
    with _http(401) as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)

    assert problem.startswith("traces, metrics, logs: ")


@EXPORTER_1_45
def test_a_redirect_is_a_problem_although_the_exporter_takes_it_for_success(monkeypatch: Any, capfd: Any) -> None:
    with _http(302, {"Location": "https://login.invalid/"}) as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)

    assert "redirects (302), which no exporter follows" in problem


def test_a_web_page_is_no_collector(monkeypatch: Any, capfd: Any) -> None:
    with _http(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>") as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)

    assert "answers with a web page (200), so it is no OTLP receiver" in problem


def test_a_server_that_never_answers_is_a_problem(monkeypatch: Any, capfd: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.getsockname()[1]}", **HTTP)

    assert "gives no answer in time" in problem


def test_http_to_a_server_of_grpc_names_the_protocol(monkeypatch: Any, capfd: Any) -> None:
    with _grpc() as port:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{port}", **HTTP)

    assert "does not speak HTTP" in problem
    assert "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in problem


def test_a_certificate_that_is_not_trusted_names_the_variable(
    monkeypatch: Any, capfd: Any, certificate: tuple[Path, Path]
) -> None:
    with _http(context=_context(certificate)) as server:
        endpoint = f"https://127.0.0.1:{server.port}"
        (problem,) = _doctor(monkeypatch, capfd, endpoint, **HTTP)
        trusted = _doctor(monkeypatch, capfd, endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]), **HTTP)

    assert "has a certificate that is not trusted here; set OTEL_EXPORTER_OTLP_CERTIFICATE" in problem
    assert trusted == []


@EXPORTER_1_45
def test_a_bundle_that_wins_over_the_certificate_is_named(
    monkeypatch: Any, capfd: Any, certificate: tuple[Path, Path]
) -> None:
    monkeypatch.setenv(
        "REQUESTS_CA_BUNDLE", ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    )
    with _http(context=_context(certificate)) as server:
        (problem,) = _doctor(
            monkeypatch,
            capfd,
            f"https://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]),
            **HTTP,
        )

    assert "unset REQUESTS_CA_BUNDLE, which wins over it" in problem


def test_tls_to_a_server_without_it_and_the_reverse_are_told_apart(
    monkeypatch: Any, capfd: Any, certificate: tuple[Path, Path]
) -> None:
    with _http() as server:
        (problem,) = _doctor(monkeypatch, capfd, f"https://127.0.0.1:{server.port}", **HTTP)
    assert "speaks no TLS; begin the endpoint with http://" in problem

    with _http(context=_context(certificate)) as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)
    assert "where it speaks TLS, begin the endpoint with https://" in problem

    with _http(400, body=b"Client sent an HTTP request to an HTTPS server.\n") as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)
    assert "speaks TLS (400); begin the endpoint with https://" in problem


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: Any, capfd: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (problem,) = _doctor(
        monkeypatch, capfd, "http://collector.invalid:4318", HTTP_PROXY=f"http://127.0.0.1:{port}", **HTTP
    )

    assert "is reached through a proxy that does not let the request pass" in problem
    assert "NO_PROXY" in problem


@pytest.mark.parametrize("status", [403, 407, 502])
def test_what_a_proxy_answers_is_said_to_come_from_it(monkeypatch: Any, capfd: Any, status: int) -> None:
    with _http(status) as proxy:
        problems = _doctor(
            monkeypatch, capfd, "http://collector.invalid:4318", HTTP_PROXY=f"http://127.0.0.1:{proxy.port}", **HTTP
        )

    for problem in problems:
        assert f"({status})" in problem
        assert "the answer came through a proxy" in problem
        assert "NO_PROXY" in problem


def test_a_proxy_that_refuses_a_tunnel_is_named(monkeypatch: Any, capfd: Any) -> None:
    with _http(407) as proxy:
        (problem,) = _doctor(
            monkeypatch, capfd, "https://collector.invalid:4318", HTTPS_PROXY=f"http://127.0.0.1:{proxy.port}", **HTTP
        )

    assert "is reached through a proxy that does not let the request pass" in problem
    assert "407" in problem


def test_grpc_that_takes_the_request_is_no_problem(monkeypatch: Any, capfd: Any) -> None:
    with _grpc() as port:
        assert _doctor(monkeypatch, capfd, f"http://127.0.0.1:{port}", **GRPC) == []


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
def test_a_grpc_status_is_named_with_its_fix(
    monkeypatch: Any, capfd: Any, code: grpc.StatusCode, meaning: str, fix: str
) -> None:
    with _grpc(code) as port:
        problems = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{port}", **GRPC)

    assert any(meaning in problem for problem in problems)
    assert all(fix in problem and code.name in problem for problem in problems)


def test_a_grpc_server_without_otlp_is_told(monkeypatch: Any, capfd: Any) -> None:
    with _grpc(services=False) as port:
        problems = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{port}", **GRPC)

    assert "speaks gRPC and takes no OTLP traces" in problems[0]


def test_grpc_to_a_server_of_http_names_the_protocol(monkeypatch: Any, capfd: Any) -> None:
    with _http() as server:
        (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **GRPC)

    assert "speaks HTTP and not gRPC; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in problem


def test_grpc_with_a_certificate_that_is_not_trusted_names_the_variable(
    monkeypatch: Any, capfd: Any, certificate: tuple[Path, Path]
) -> None:
    with _grpc(credentials=_credentials(certificate)) as port:
        endpoint = f"https://127.0.0.1:{port}"
        (problem,) = _doctor(monkeypatch, capfd, endpoint, **GRPC)
        trusted = _doctor(monkeypatch, capfd, endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate[0]), **GRPC)

    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in problem
    assert trusted == []


def test_grpc_that_nobody_listens_to_is_told_in_one_sentence(monkeypatch: Any, capfd: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (problem,) = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{port}", **GRPC)

    assert "does not answer; start a collector there" in problem
    assert "refused" in problem


def test_the_secret_in_the_headers_is_not_printed(monkeypatch: Any, capfd: Any) -> None:
    with _http(401) as server:
        problems = _doctor(
            monkeypatch,
            capfd,
            f"http://user:password@127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20s3cret",
            **HTTP,
        )

    assert "s3cret" not in "".join(problems)
    assert "password" not in "".join(problems)


@pytest.mark.parametrize(
    ("address", "headers", "said"),
    [
        (
            "http://127.0.0.1:4318",
            "authorization=Bearer%20pass%0As3cret%0Aword",
            "a value of OTEL_EXPORTER_OTLP_HEADERS",
        ),
        ("user:s3cret@127.0.0.1:4318/x", "", "is no address"),
        ("http://user:s3cret@127.0.0.1:99999/x?key=s3cret", "", "is no address"),
        # Exporter 1.44 refuses it when it is opened, with other words.
        ("http://user:s3cret@[::1:4318/x", "", "http://[::1:4318/x"),
    ],
)
def test_no_secret_is_printed_where_no_request_can_be_sent(
    monkeypatch: Any, capfd: Any, address: str, headers: str, said: str
) -> None:
    problems = _doctor(monkeypatch, capfd, address, OTEL_EXPORTER_OTLP_HEADERS=headers, **HTTP)
    main(["doctor"])

    assert all(said in problem for problem in problems)
    assert problems
    written = capfd.readouterr()
    assert "s3cret" not in written.out + written.err + "".join(problems)


def test_the_user_in_an_address_that_grpc_quotes_is_not_printed(monkeypatch: Any, capfd: Any) -> None:
    (problem,) = _doctor(monkeypatch, capfd, "http://user:s3cret@127.0.0.1:4317", **GRPC)

    assert "does not answer" in problem
    assert "s3cret" not in problem


@pytest.mark.parametrize(("status", "said"), [(200, "failed at its shutdown: OSError: still busy"), (401, "401")])
def test_an_exporter_that_fails_at_its_shutdown_ends_no_check(
    monkeypatch: Any, capfd: Any, status: int, said: str
) -> None:
    original = OTLPSpanExporter.shutdown

    def shutdown(self: OTLPSpanExporter) -> None:
        original(self)
        raise OSError("still busy")

    monkeypatch.setattr(OTLPSpanExporter, "shutdown", shutdown)
    with _http(status) as server:
        problems = _doctor(monkeypatch, capfd, f"http://127.0.0.1:{server.port}", **HTTP)

    assert any(said in problem for problem in problems)
    assert any("shutdown" in problem for problem in problems) == (status == 200)


def test_a_certificate_file_that_is_not_there_is_named(monkeypatch: Any, capfd: Any) -> None:
    with _http() as server:
        problems = _doctor(
            monkeypatch,
            capfd,
            f"https://127.0.0.1:{server.port}",
            OTEL_EXPORTER_OTLP_CERTIFICATE="/gone.pem",
            **HTTP,
        )

    assert "/gone.pem" in problems[0]


@pytest.mark.skipif(installed("opentelemetry-configuration") is None, reason="not in the oldest environment")
def test_with_a_configuration_file_nothing_is_sent_and_the_text_says_so(
    monkeypatch: Any, capfd: Any, tmp_path: Path
) -> None:
    (tmp_path / "otel.yaml").write_text("")
    with _http(401) as server:
        assert (
            _doctor(
                monkeypatch,
                capfd,
                f"http://127.0.0.1:{server.port}",
                OTEL_CONFIG_FILE=str(tmp_path / "otel.yaml"),
                **HTTP,
            )
            == []
        )
        main(["doctor"])

    assert server.requests == []
    assert "nothing was sent there" in capfd.readouterr().out
