"""Requests to services of `OTEL_RL_SERVICES`, by every client: a span, trace context, and a place in the rollout."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
import types

import pytest
from opentelemetry.trace import StatusCode
from support.engine_server import EngineServer
from unit.inference_http.http_posts import post

import otel_rl
from otel_rl.core import settings
from otel_rl.inference.http import service_calls, services
from otel_rl.telemetry import drops

PUBLIC = "public.example"


@pytest.fixture
def name_services(monkeypatch):
    """Set the variable; what it says is in force until the end of the test."""

    def name(value):
        monkeypatch.setenv("OTEL_RL_SERVICES", value)
        settings.reset()
        services.forget()

    yield name
    monkeypatch.undo()
    settings.reset()
    services.forget()


@pytest.fixture
def public(monkeypatch):
    """A server under a name that is no private one; its address is loopback all the same."""
    original = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        return original("127.0.0.1" if host in (PUBLIC, PUBLIC.encode()) else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with EngineServer() as running:
        yield running


def of_services(recorded):
    return [span for span in recorded.spans if "rl.service" in (span.attributes or {})]


def root(recorded):
    [span] = [span for span in recorded.spans if span.name == "rl.rollout"]
    return span


def test_a_request_is_a_span_of_the_rollout_and_carries_its_ids(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    with otel_rl.rollout("r1"):
        assert post(client, f"{server.url}/score?answer=secret", json={"answer": "secret"}) == {}

    [span], rollout = of_services(instrumented), root(instrumented)
    assert (span.name, span.kind.name, span.parent.span_id) == ("POST reward", "CLIENT", rollout.context.span_id)
    assert {key: value for key, value in span.attributes.items() if not key.startswith(("rl.run", "rl.roll"))} == {
        "rl.service": "reward",
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.full": f"{server.url}/score",
        "server.address": "127.0.0.1",
        "server.port": server.server_port,
    }
    assert f"{span.context.trace_id:032x}-{span.context.span_id:016x}" in server.headers("traceparent")[0]
    assert "rl.rollout.id=r1" in server.headers("baggage")[0]
    assert rollout.attributes["rl.rollout.service_calls"] == 1
    assert rollout.attributes["rl.rollout.service_seconds"] > 0
    assert "rl.rollout.model_calls" not in rollout.attributes


def test_a_failed_request_makes_the_lowest_reward_suspect(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    server.status = 503
    with otel_rl.rollout("r1"):
        assert post(client, f"{server.url}/score", read="status", json={}) == 503
        otel_rl.reward("correct", 0.0)

    [span], rollout = of_services(instrumented), root(instrumented)
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "503")
    assert rollout.attributes["rl.rollout.span_errors"] == 1
    assert rollout.attributes["rl.rollout.suspect"] is True


def test_a_service_that_is_not_there_is_a_failed_request_with_the_client_s_exception(
    client, instrumented, name_services
):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        name_services(f"sandbox={url}")
        with otel_rl.rollout("r1"), pytest.raises(Exception, match=r"."):
            post(client, f"{url}/run", json={})

    [span], rollout = of_services(instrumented), root(instrumented)
    assert span.attributes["error.type"]
    assert rollout.attributes["rl.rollout.span_errors"] == 1


def test_other_requests_go_out_as_they_would_without_us(client, instrumented, server, name_services):
    name_services(f"reward={server.url}/scores,elsewhere=127.0.0.1:1")
    with otel_rl.rollout("r1"):
        post(client, f"{server.url}/scoreboard", json={"a": 1})
    assert server.headers("traceparent") == server.headers("baggage") == []
    assert of_services(instrumented) == []
    assert "rl.rollout.service_calls" not in root(instrumented).attributes


def test_an_engine_s_model_call_stays_one_though_its_host_is_named(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    with otel_rl.rollout("r1"):
        post(client, f"{server.url}/v1/completions", json={"model": "m", "prompt": "p"})
        post(client, f"{server.url}/generate", json={"answer": "a"})
    assert [span.name for span in of_services(instrumented)] == ["POST reward"]
    assert root(instrumented).attributes["rl.rollout.model_calls"] == 1


def test_a_public_service_gets_the_trace_context_alone(client, instrumented, public, name_services):
    name_services(f"reward=http://*.example:{public.server_port}")
    with otel_rl.rollout("r1"):
        post(client, f"http://{PUBLIC}:{public.server_port}/score", json={})
    [span] = of_services(instrumented)
    assert f"{span.context.span_id:016x}" in public.headers("traceparent")[0]
    assert public.headers("baggage") == []


def test_a_redirect_to_a_public_host_is_one_request_and_loses_the_ids(instrumented, server, public, name_services):
    name_services(f"reward={server.url}")
    server.redirects["/score"] = f"http://{PUBLIC}:{public.server_port}/score"
    for library, how in (("httpx", {"follow_redirects": True}), ("requests", {"timeout": 10})):
        with otel_rl.rollout("r1"):
            importlib.import_module(library).post(f"{server.url}/score", json={}, **how)
        assert "rl.rollout.id=r1" in server.headers("baggage")[0]
        assert public.headers("baggage") == []
    asyncio.run(_aiohttp(f"{server.url}/score"))
    assert public.headers("baggage") == []
    assert len(public.requests) == len(of_services(instrumented)) == 3


async def _aiohttp(url):
    import aiohttp

    with otel_rl.rollout("r1"):
        async with aiohttp.ClientSession() as session, session.post(url, json={}) as response:
            await response.read()


def test_the_program_s_own_trace_context_and_headers_stay(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    own = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    with otel_rl.rollout("r1"):
        post(client, f"{server.url}/score", json={}, headers={"traceparent": own, "baggage": "tenant=a"})
    assert server.headers("traceparent") == [own]
    assert server.headers("baggage") == ["tenant=a"]
    assert len(of_services(instrumented)) == 1


def test_outside_of_rollouts_a_request_has_a_span(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    post(client, f"{server.url}/score", json={})
    assert len(of_services(instrumented)) == 1


def test_every_request_counts_in_the_histogram_of_its_service(client, instrumented, server, name_services):
    name_services(f"reward={server.url}")
    with otel_rl.rollout("r1"):
        post(client, f"{server.url}/score", json={})
    server.status = 503
    post(client, f"{server.url}/score", read="status", json={})

    points = {point.attributes.get("error.type"): point for point in instrumented.metrics()["rl.service.duration"]}
    assert set(points) == {None, "503"}
    for point in points.values():
        assert (point.count, point.attributes["rl.service"]) == (1, "reward")
        assert point.sum > 0


@pytest.mark.parametrize("in_step", [True, False], ids=["of a step", "of a minute"])
def test_beyond_a_number_outside_of_rollouts_only_failed_requests_have_spans(
    in_step, instrumented, server, name_services, monkeypatch
):
    monkeypatch.setenv("OTEL_RL_ROLLOUT_SPANS", "2")
    monkeypatch.setattr(service_calls._Minute, "number", -1)
    monkeypatch.setattr(service_calls, "time", types.SimpleNamespace(monotonic=lambda: 600.0))
    name_services(f"reward={server.url}")
    before = drops.snapshot().get(("traces", "rollout_spans"), 0)
    with otel_rl.step(1) if in_step else contextlib.nullcontext():
        for _ in range(3):
            post("httpx.sync", f"{server.url}/score", json={})
        server.status = 503
        post("httpx.sync", f"{server.url}/score", read="status", json={})
        with otel_rl.rollout("r1"):
            post("httpx.sync", f"{server.url}/score", read="status", json={})

    found = [
        span.attributes.get("rl.rollout.id", span.attributes.get("error.type")) for span in of_services(instrumented)
    ]
    assert sorted(found, key=str) == ["503", None, None, "r1"]
    assert sum(point.count for point in instrumented.metrics()["rl.service.duration"]) == 5
    assert drops.snapshot()["traces", "rollout_spans"] - before == 2


@pytest.mark.parametrize(
    "value",
    ["http://127.0.0.1:9000", "reward=", "reward=ftp://a", "re ward=a:1", "r=*", "r=a:b", "r=http://u@a", "r=a/x?y=1"],
)
def test_what_names_no_service_is_told_with_what_does(value):
    parsed, complaints = settings.load({"OTEL_RL_SERVICES": value})
    assert parsed.services is None
    [complaint] = complaints
    assert "OTEL_RL_SERVICES" in complaint
    assert "name=http://host:port/path" in complaint


@pytest.mark.parametrize(
    ("value", "url", "found"),
    [
        ("a=http://h", ("http", "h", None, "/x"), "a"),
        ("a=http://h", ("http", "h", 81, "/x"), None),
        ("a=http://h", ("https", "h", None, "/x"), None),
        ("a=h", ("https", "H.", 8443, "/x"), "a"),
        ("a=[::1]:80", ("http", "::1", None, "/"), "a"),
        ("a=env-*.svc:80", ("http", "env-7.svc", 80, "/"), "a"),
        ("a=env-*.svc:80", ("http", "xenv-7.svc", 80, "/"), None),
        ("a=h:1/api,b=h:1", ("http", "h", 1, "/api/x"), "a"),
        ("a=h:1/api,b=h:1", ("http", "h", 1, "/apix"), "b"),
    ],
)
def test_an_entry_names_scheme_host_port_and_beginning_of_a_path(name_services, value, url, found):
    name_services(value)
    assert services.name_of("POST", *url) == found


def test_a_request_that_is_cancelled_ends_its_span(instrumented, server, name_services):
    httpx = importlib.import_module("httpx")
    name_services(f"reward={server.url}")
    server.hold.clear()

    async def main():
        async with httpx.AsyncClient() as session:
            asked = asyncio.ensure_future(session.post(f"{server.url}/score", json={}))
            await asyncio.to_thread(server.arrived.wait, 10)
            asked.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asked

    server.missing = 1  # the body does not end before the test lets it
    asyncio.run(main())
    server.hold.set()
    [span] = of_services(instrumented)
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
