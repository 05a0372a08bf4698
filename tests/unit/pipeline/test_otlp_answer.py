"""What an OTLP answer says of the items that were sent, judged on real answers of real servers."""

from __future__ import annotations

import json
import socket

import pytest

pytest.importorskip("requests")
import requests
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from support.otlp_servers import http_server

from otel_rl.core.addresses import without_secrets
from otel_rl.pipeline import otlp_answer
from otel_rl.pipeline.otlp_answer import Outcome

PROTOBUF, JSON, HTML = ({"Content-Type": kind} for kind in ("application/x-protobuf", "application/json", "text/html"))


def _answer(status=200, headers=None, body=b"", signal="traces"):
    with http_server(status, headers, body) as server:
        response = requests.post(f"http://127.0.0.1:{server.port}/v1/{signal}", timeout=60, allow_redirects=False)
    return otlp_answer.of_response(response, signal)


@pytest.mark.parametrize(
    ("status", "headers", "body", "outcome"),
    [
        (200, {}, b"", Outcome.ACCEPTED),
        (202, JSON, b"{}", Outcome.ACCEPTED),
        (200, JSON, b'{"partialSuccess":{}}', Outcome.ACCEPTED),
        (200, JSON, b"[]", Outcome.ACCEPTED),
        (200, {"Content-Type": "text/plain"}, b"ok", Outcome.ACCEPTED),
        (200, HTML, b"<html>please log in</html>", Outcome.REFUSED),
        (200, {}, b"<!DOCTYPE html><title>Sign in</title>", Outcome.REFUSED),
        (301, {"Location": "/login"}, b"", Outcome.REFUSED),
        (308, {"Location": "/login"}, b"", Outcome.REFUSED),
        (400, {}, b"", Outcome.REFUSED),
        (401, {}, b"", Outcome.REFUSED),
        (404, {}, b"", Outcome.REFUSED),
        (500, {}, b"", Outcome.REFUSED),
        (429, {}, b"", Outcome.RETRY),
        (502, {}, b"", Outcome.RETRY),
        (503, {}, b"", Outcome.RETRY),
        (504, {}, b"", Outcome.RETRY),
    ],
)
def test_an_http_answer_is_judged_as_the_protocol_says(status, headers, body, outcome):
    assert _answer(status, headers, body).outcome is outcome


def test_a_login_page_and_a_redirect_are_named_and_the_redirect_shows_no_key():
    assert _answer(200, HTML).reason == "answered with an HTML page: is a login in front of it?"
    location = {"Location": "https://user:pw@login.invalid/in?ticket=secret"}
    assert _answer(302, location).reason == "answered with a redirect (302 to https://login.invalid/in)"


def test_a_redirect_that_was_followed_with_get_is_no_delivery():
    with http_server(200, HTML) as login, http_server(302, {"Location": f"http://127.0.0.1:{login.port}/"}) as server:
        # The login page takes POST only: 501 is what a GET meets.
        response = requests.post(f"http://127.0.0.1:{server.port}/v1/traces", timeout=60)
    assert otlp_answer.of_response(response, "traces").reason.startswith("answered with a redirect (302 to ")


def test_seconds_to_wait_are_read():
    assert _answer(503, {"Retry-After": "3"}).retry_after == 3
    assert _answer(503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}).retry_after == 0


MESSAGES = [
    ("traces", ExportTraceServiceResponse, "rejected_spans", "rejectedSpans", "spans"),
    ("metrics", ExportMetricsServiceResponse, "rejected_data_points", "rejectedDataPoints", "metric points"),
    ("logs", ExportLogsServiceResponse, "rejected_log_records", "rejectedLogRecords", "log records"),
]


@pytest.mark.parametrize(("signal", "kind", "field", "json_field", "items"), MESSAGES)
def test_rejected_items_are_counted_in_protobuf_in_json_and_over_grpc(signal, kind, field, json_field, items):
    message = kind()
    setattr(message.partial_success, field, 3)
    message.partial_success.error_message = "quota"
    body = json.dumps({"partialSuccess": {json_field: "3", "errorMessage": "quota"}}).encode()
    expected = otlp_answer.OtlpAnswer(Outcome.REJECTED, 3, f"it rejected {items}: quota")

    assert _answer(200, PROTOBUF, message.SerializeToString(), signal) == expected
    assert _answer(200, JSON, body, signal) == expected
    assert otlp_answer.of_message(message, signal) == expected
    # A message without a number is a warning.
    message.partial_success.ClearField(field)
    assert otlp_answer.of_message(message, signal).outcome is Outcome.ACCEPTED


def _failure(url, **options):
    with pytest.raises(requests.RequestException) as raised:
        requests.post(url, timeout=0.3, **options)
    return otlp_answer.of_exception(raised.value)


def test_a_port_that_refuses_has_nothing_and_one_that_is_silent_may_have_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        silent = _failure(f"http://127.0.0.1:{port}/v1/traces", data=b"x")
    refused = _failure(f"http://127.0.0.1:{port}/v1/traces?api_key=secret")

    assert (silent.outcome, silent.reason) == (Outcome.UNANSWERED, "timed out")
    assert (refused.outcome, refused.reason) == (Outcome.RETRY, "Connection refused")
    assert _failure("http://[not-an-address/").outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("code", "details", "outcome"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses", Outcome.RETRY),
        ("RESOURCE_EXHAUSTED", "memory", Outcome.RETRY),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)", Outcome.REFUSED),
        ("DEADLINE_EXCEEDED", "", Outcome.UNANSWERED),
        ("UNAUTHENTICATED", "no token", Outcome.REFUSED),
        ("UNIMPLEMENTED", "", Outcome.REFUSED),
    ],
)
def test_a_grpc_status_is_judged_as_the_protocol_says(code, details, outcome):
    assert otlp_answer.of_status(code, details).outcome is outcome


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Max retries exceeded with url: /v1/traces?api_key=sk (Caused by", "exceeded with url: /v1/traces (Caused by"),
        ("cannot connect to http://user:pw@host:4317", "cannot connect to http://host:4317"),
        ("DNS failed for user:pw@host:4317", "DNS failed for host:4317"),
        ("is a login in front of it?", "is a login in front of it?"),
    ],
)
def test_no_secret_of_an_address_is_shown(text, shown):
    assert without_secrets(text).endswith(shown)
