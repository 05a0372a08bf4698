"""Baggage of a rollout reaches the server in one header and with each member once, by every client."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import baggage, propagate
from opentelemetry.context import attach, detach
from unit.inference_http.http_posts import post

from otel_rl import rollout

BODY = {"text": "hi"}
OURS = ["rl.rollout.id=r1", "rl.sample.id=s1"]


@pytest.fixture
def inside(instrumented):
    token = attach(baggage.set_baggage("tenant", "secret"))
    with rollout(rollout_id="r1", sample_id="s1"):
        yield instrumented
    detach(token)


def _members(server):
    [header] = server.headers("baggage")
    names = [member.partition("=")[0] for member in header.split(",")]
    assert len(set(names)) == len(names)
    assert len(server.headers("traceparent")) == 1
    return [member for member in header.split(",") if not member.startswith("rl.run.")]


@pytest.mark.parametrize("path", ["/generate", "/v1/chat/completions", "/update_weights"])
def test_it_is_one_header_with_each_of_our_entries_once(path, client, server, inside):
    post(client, f"{server.url}{path}", read="status", json=BODY)
    assert sorted(_members(server)) == OURS


@pytest.mark.parametrize("name", ["baggage", "Baggage"])
def test_a_header_that_another_propagator_has_written_is_the_only_one(name, client, server, inside):
    headers = {}
    propagate.inject(headers)
    theirs = headers.pop("baggage")
    post(client, f"{server.url}/generate", json=BODY, headers={**headers, name: theirs})
    assert sorted(_members(server)) == [*OURS, "tenant=secret"]
    assert server.headers("traceparent") == [headers["traceparent"]]


def _httpx(module, url, headers):
    with module.Client(headers=headers) as client:
        client.post(url, json=BODY)


def _requests(module, url, headers):
    with module.Session() as session:
        session.headers.update(headers)
        session.post(url, json=BODY)


def _urllib3(module, url, headers):
    with module.PoolManager(headers=headers) as manager:
        manager.request("POST", url, body=b"{}")


def _aiohttp(module, url, headers):
    async def main():
        async with module.ClientSession(headers=headers) as session, session.post(url, json=BODY) as response:
            await response.read()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("library", "call"),
    [("httpx", _httpx), ("httpx2", _httpx), ("requests", _requests), ("urllib3", _urllib3), ("aiohttp", _aiohttp)],
)
def test_a_header_of_the_session_is_the_only_one(library, call, server, inside):
    call(pytest.importorskip(library), f"{server.url}/generate", {"Baggage": "mine=1"})
    assert _members(server) == ["mine=1"]


def test_aiohttp_sends_each_value_of_the_session_and_that_of_the_request_in_its_place(server, inside):
    aiohttp = pytest.importorskip("aiohttp")
    multidict = pytest.importorskip("multidict")

    async def main(**given):
        both = multidict.CIMultiDict([("baggage", "a=1"), ("baggage", "b=2")])
        async with aiohttp.ClientSession(headers=both) as session:
            async with session.post(f"{server.url}/generate", json=BODY, **given) as response:
                await response.read()

    asyncio.run(main())
    assert server.headers("baggage") == ["a=1", "b=2"]
    asyncio.run(main(headers={"BAGGAGE": "c=3"}))
    assert server.headers("baggage") == ["c=3"]
