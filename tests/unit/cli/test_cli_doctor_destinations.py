"""``otel-rl doctor`` sends a real empty OTLP request per signal, and names what is wrong with its destination."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from support.otlp_servers import EXPORTER_1_45, HTTP, http_server

from otel_rl.cli import main
from otel_rl.cli.doctor.installed_instrumentors import installed
from otel_rl.cli.doctor.products import explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Doctor = Callable[..., list[str]]

SIGNALS = ("logs", "metrics", "traces")


def test_each_signal_is_sent_an_empty_request_with_the_headers_of_a_run(doctor: Doctor) -> None:
    with http_server() as server:
        problems = doctor(
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
def test_an_http_status_is_named_with_its_fix(doctor: Doctor, status: int, meaning: str, fix: str) -> None:
    with http_server(status) as server:
        problems = doctor(f"http://127.0.0.1:{server.port}", **HTTP)

    assert problems
    for problem in problems:
        assert f"http://127.0.0.1:{server.port} " in problem
        assert meaning in problem
        assert fix in problem


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "is Langfuse and wants credentials (401); set OTEL_EXPORTER_OTLP_TRACES_HEADERS=Authorization=Basic"),
        (403, "is Langfuse and refuses these credentials (403)"),
        (404, "is Langfuse and takes traces at /api/public/otel/v1/traces (404)"),
        (415, "is Langfuse and takes protobuf only (415)"),
        (500, "is overloaded or not ready (500)"),
    ],
)
def test_what_a_product_answers_is_explained_in_its_words(doctor: Doctor, status: int, said: str) -> None:
    with http_server(status) as server:
        problems = doctor(f"http://127.0.0.1:{server.port}/api/public/otel", **HTTP)

    [of_traces] = [problem for problem in problems if problem.startswith("traces")]
    assert said in of_traces
    [of_others] = [problem for problem in problems if not problem.startswith("traces")]
    assert "takes traces only; in place of OTEL_EXPORTER_OTLP_ENDPOINT set OTEL_EXPORTER_OTLP_TRACES_END" in of_others


def test_a_key_that_is_set_and_refused_is_told_as_that(doctor: Doctor) -> None:
    with http_server(401) as server:
        problems = doctor(
            f"http://127.0.0.1:{server.port}/api/public/otel",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Basic%20eA",
            **HTTP,
        )

    [of_traces] = [problem for problem in problems if problem.startswith("traces")]
    assert "is Langfuse and refuses the credentials that are set (401)" in of_traces


def test_metrics_that_a_product_takes_and_throws_away_are_a_problem(doctor: Doctor) -> None:
    with http_server() as server:
        [problem] = doctor(f"http://127.0.0.1:{server.port}/api/public/otel", **HTTP)

    assert problem.startswith(("logs, metrics: ", "metrics, logs: "))


@pytest.mark.parametrize(
    ("destination", "answered", "said"),
    [
        ("http://127.0.0.1:9411", "takes no OTLP at this path (404); ...", "is Zipkin, which takes no OTLP"),
        ("https://api.smith.langchain.com/otel", "wants credentials (401); ...", "TRACES_HEADERS=x-api-key=KEY"),
        ("https://logfire-us.pydantic.dev", "wants credentials (401); ...", "TRACES_HEADERS=Authorization=TOKEN"),
        ("http://127.0.0.1:6006", "does not take protobuf (415); ...", "is Phoenix and takes protobuf only"),
        ("https://trace.wandb.ai", "answers with a web page (200), so ...", "takes traces at /otel/v1/traces (200)"),
        ("http://127.0.0.1:4318", "wants credentials (401); set X", "wants credentials (401); set X"),
        ("http://otel.phoenix-az.example:4318", "wants credentials (401); set X", "wants credentials (401); set X"),
    ],
)
def test_a_product_is_known_by_its_address(destination: str, answered: str, said: str) -> None:
    assert said in explained(destination, "traces", answered)


def test_a_receiver_that_takes_metrics_is_well_whatever_its_address_looks_like() -> None:
    assert explained("http://127.0.0.1:6006", "metrics", "") == ""
    assert explained("http://logfire.example:4318", "metrics", "") == ""


def test_signals_with_the_same_problem_share_a_sentence(doctor: Doctor) -> None:
    with http_server(401) as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **HTTP)

    assert problem.startswith("traces, metrics, logs: ")


@EXPORTER_1_45
def test_a_redirect_is_a_problem_although_the_exporter_takes_it_for_success(doctor: Doctor) -> None:
    with http_server(302, {"Location": "https://login.invalid/"}) as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **HTTP)

    assert "redirects (302), which no exporter follows" in problem


def test_a_web_page_is_no_collector(doctor: Doctor) -> None:
    with http_server(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>") as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.port}", **HTTP)

    assert "answers with a web page (200), so it is no OTLP receiver" in problem


def test_a_server_that_never_answers_is_a_problem(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (problem,) = doctor(f"http://127.0.0.1:{server.getsockname()[1]}", **HTTP)

    assert "gives no answer in time" in problem


def test_the_secret_in_the_headers_is_not_printed(doctor: Doctor) -> None:
    with http_server(401) as server:
        problems = doctor(
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
    doctor: Doctor, capfd: Any, address: str, headers: str, said: str
) -> None:
    problems = doctor(address, OTEL_EXPORTER_OTLP_HEADERS=headers, **HTTP)
    main(["doctor"])

    assert all(said in problem for problem in problems)
    assert problems
    written = capfd.readouterr()
    assert "s3cret" not in written.out + written.err + "".join(problems)


@pytest.mark.parametrize(("status", "said"), [(200, "failed at its shutdown: OSError: still busy"), (401, "401")])
def test_an_exporter_that_fails_at_its_shutdown_ends_no_check(
    doctor: Doctor, monkeypatch: Any, status: int, said: str
) -> None:
    original = OTLPSpanExporter.shutdown

    def shutdown(self: OTLPSpanExporter) -> None:
        original(self)
        raise OSError("still busy")

    monkeypatch.setattr(OTLPSpanExporter, "shutdown", shutdown)
    with http_server(status) as server:
        problems = doctor(f"http://127.0.0.1:{server.port}", **HTTP)

    assert any(said in problem for problem in problems)
    assert any("shutdown" in problem for problem in problems) == (status == 200)


@pytest.mark.skipif(installed("opentelemetry-configuration") is None, reason="not in the oldest environment")
def test_with_a_configuration_file_nothing_is_sent_and_the_text_says_so(
    doctor: Doctor, capfd: Any, tmp_path: Path
) -> None:
    (tmp_path / "otel.yaml").write_text("")
    with http_server(401) as server:
        assert (
            doctor(
                f"http://127.0.0.1:{server.port}",
                OTEL_CONFIG_FILE=str(tmp_path / "otel.yaml"),
                **HTTP,
            )
            == []
        )
        main(["doctor"])

    assert server.requests == []
    assert "nothing was sent there" in capfd.readouterr().out
