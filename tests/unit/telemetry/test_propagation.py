"""Which headers a request gets, by where it goes; and what a server makes of them."""

from __future__ import annotations

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach

from otel_rl.core import settings
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, propagation

_scope = Scope("test")

NEAR = [
    "http://localhost:8000/v1", "http://127.0.0.1", "http://[::1]:80/", "http://10.1.2.3", "http://192.168.0.7:1",
    "http://172.31.0.1", "http://169.254.1.1", "http://[fd00::1]/", "http://[::ffff:10.0.0.1]/", "http://vllm:8000",
    "http://node-017", "http://api.localhost", "http://engine.default.svc", "http://engine.default.svc.cluster.local",
    "http://gpu.internal.", "HTTP://LOCALHOST", "localhost",
]  # fmt: skip
FAR = [
    "https://api.openai.com/v1", "https://8.8.8.8", "http://[2001:4860:4860::8888]/", "http://172.32.0.1", "http://2130706433",
    "http://0x7f000001", "http://127.0.0.1.evil.example", "http://localhost.example", "http://100.64.0.1", "http://svc.example",
    "http://[::ffff:8.8.8.8]/", "", "unix:", "http://internal.example.com", "http://user@api.example.com:8/x?http://localhost",
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch):
    settings.reset()
    yield monkeypatch
    monkeypatch.undo()
    settings.reset()


@pytest.fixture
def inside(recorded):
    """A span, with baggage of the program and of ours."""
    context = baggage.set_baggage("rl.rollout.id", "r-1", baggage.set_baggage("customer", "secret"))
    token = attach(context)
    with trace.use_span(_scope.start_span(spans.RL_GENERATE), end_on_exit=True) as span:
        yield span
    detach(token)


@pytest.mark.parametrize("url", NEAR)
def test_hosts_near_by_get_our_baggage_and_no_other(url, inside):
    headers = {}
    propagation.inject(headers, url)
    assert headers["baggage"] == "rl.rollout.id=r-1"


@pytest.mark.parametrize(("url", "sent"), [(NEAR[0], "customer=secret,rl.rollout.id=r-1"), (FAR[0], "customer=secret")])
def test_the_programs_baggage_goes_along_where_the_library_would_send_it(url, sent, inside):
    headers = {}
    propagation.inject(headers, url, others=True)
    assert headers["baggage"] == sent


@pytest.mark.parametrize("url", FAR)
def test_other_hosts_get_the_trace_only(url, inside):
    headers = {}
    propagation.inject(headers, url)
    assert set(headers) == {"traceparent"}
    assert f"{inside.get_span_context().span_id:016x}" in headers["traceparent"]


def test_hosts_that_the_user_names_get_our_baggage(inside, fresh_settings):
    fresh_settings.setenv("OTEL_RL_PROPAGATE_TO", "api.openai.com, .Example.org")
    for url, expected in (
        ("https://api.openai.com/v1", True),
        ("https://x.api.openai.com/v1", False),
        ("https://engine.example.org", True),
        ("https://example.org", False),
        ("https://badexample.org", False),
    ):
        headers = {}
        propagation.inject(headers, url)
        assert ("baggage" in headers) is expected, url


def test_nothing_is_sent_where_propagation_is_off(inside, fresh_settings):
    fresh_settings.setenv("OTEL_RL_PROPAGATE", "off")
    headers = {}
    propagation.inject(headers, "http://localhost")
    assert headers == {}
    assert propagation.to_environment(trace.set_span_in_context(inside)) == {}


def test_a_baggage_header_of_the_program_stays(inside):
    headers = {"baggage": "mine=1"}
    propagation.inject(headers, "http://localhost")
    assert headers["baggage"] == "mine=1"


def test_no_name_is_resolved(inside, monkeypatch):
    import socket

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("resolved a name"))
    for url in NEAR + FAR:
        propagation.inject({}, url)


def test_a_server_takes_the_callers_span_as_parent_and_only_correlation_as_baggage(recorded, inside):
    headers = {}
    propagation.inject(headers, "localhost")
    sent = {"Traceparent": headers["traceparent"], "BAGGAGE": headers["baggage"] + ",rl.unknown=1,customer=x"}
    context = propagation.extract(sent)
    assert baggage.get_all(context) == {"rl.rollout.id": "r-1"}
    served = _scope.start_span(spans.RL_SAMPLE, context=context)
    _scope.end_span(served)
    assert recorded.span("rl.sample").parent.span_id == inside.get_span_context().span_id
    assert recorded.span("rl.sample").parent.is_remote
    assert propagation.link(sent).context.span_id == inside.get_span_context().span_id


@pytest.mark.parametrize(
    "carrier", [{}, {"traceparent": "00-garbage"}, {"baggage": "rl.rollout.id=x"}, {"traceparent": 7}]
)
def test_a_request_without_a_usable_trace_has_no_parent_and_no_link(carrier, recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    assert not trace.get_current_span(propagation.extract(carrier)).get_span_context().is_valid
    assert propagation.link(carrier) is None


@pytest.mark.parametrize("name", ["Baggage", b"Baggage"])
def test_what_is_withheld_may_be_bytes(name):
    headers, ours = {name: b"customer=\xe4,rl.group.id=g"}, {name: b"rl.group.id=g"}
    for written in (headers, ours):
        propagation.withhold(written, FAR[0])
    assert (headers, ours) == ({name: b"customer=\xe4"}, {})
