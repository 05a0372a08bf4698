"""Clients of a program's own classes: one span per call, one trace context, and what the class does stays."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings

import pytest
from support.engine_server import SGLANG

from otel_rl.inference.dropped_answers import record_abandoned

BODY = {"text": "hi"}


def _httpx(module, seen):
    class Client(module.Client):
        def build_request(self, method, url, **given):
            seen.append("build_request")
            return super().build_request(method, url, **given)

        def send(self, request, *, stream=False, **given):
            seen.append("send")
            request.headers["x-mine"] = "1"
            response = super().send(request=request, stream=stream, **given)
            response.mine = seen
            return response

        def post(self, path, **given):
            seen.append("post")
            return super().post(path, **given)

    return Client


def _httpx_async(module, seen):
    class AsyncClient(module.AsyncClient):
        async def send(self, request, *args, **given):
            seen.append("send")
            request.headers["x-mine"] = "1"
            response = await super().send(request, *args, **given)
            response.mine = seen
            return response

        async def post(self, path, **given):
            seen.append("post")
            return await super().post(path, **given)

    return AsyncClient


def _requests(module, seen):
    class Session(module.Session):
        def request(self, method, url, **given):
            seen.append("request")
            return super().request(method, url, **given)

        def prepare_request(self, request):
            seen.append("prepare_request")
            return super().prepare_request(request)

        def send(self, request, **given):
            seen.append("send")
            request.headers["x-mine"] = "1"
            response = super().send(request, **given)
            response.mine = seen
            return response

    return Session


def _urllib3(module, seen):
    class PoolManager(module.PoolManager):
        def urlopen(self, method, url, redirect=True, **given):
            seen.append("urlopen")
            given["headers"] = {**(given.get("headers") or {}), "x-mine": "1"}
            return super().urlopen(method, url, redirect=redirect, **given)

    return PoolManager


def _aiohttp(module, seen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class ClientSession(module.ClientSession):
            async def _request(self, method, url, **given):
                seen.append("_request")
                given["headers"] = {**(given.get("headers") or {}), "x-mine": "1"}
                return await super()._request(method, url, **given)

            def post(self, url, **given):
                seen.append("post")
                return super().post(url, **given)

    return ClientSession


#: Client -> its subclass, and the methods of it that one call runs.
CLASSES = {
    "httpx.sync": (_httpx, ["post", "build_request", "send"]),
    "httpx.async": (_httpx_async, ["post", "send"]),
    "httpx2.sync": (_httpx, ["post", "build_request", "send"]),
    "httpx2.async": (_httpx_async, ["post", "send"]),
    "requests": (_requests, ["request", "prepare_request", "send"]),
    "urllib3": (_urllib3, ["urlopen"]),
    "aiohttp": (_aiohttp, ["post", "_request"]),
}


def _call(kind, url):
    """One call with a client of the class; what the program gets."""
    name = kind.__mro__[1].__module__.partition(".")[0]
    if name == "aiohttp":

        async def with_aiohttp():
            async with kind() as session, session.post(url, json=BODY) as response:
                return await response.json()

        return asyncio.run(with_aiohttp())
    if name == "urllib3":
        with kind(retries=False) as manager:
            return manager.request("POST", url, json=BODY).json()
    if inspect.iscoroutinefunction(kind.send):

        async def with_httpx():
            async with kind() as client:
                return (await client.post(url, json=BODY)).json()

        return asyncio.run(with_httpx())
    with kind() as client:
        return client.post(url, json=BODY).json()


@pytest.mark.parametrize("name", CLASSES)
def test_a_call_of_a_subclass_is_one_call_and_runs_what_the_class_adds(name, server, instrumented):
    module = pytest.importorskip(name.partition(".")[0])
    make, methods = CLASSES[name]
    #: What the methods of the class have done, in order.
    seen = []
    assert _call(make(module, seen), f"{server.url}/generate") == SGLANG

    gc.collect()
    record_abandoned()
    [span] = instrumented.spans
    assert span.attributes["gen_ai.usage.output_tokens"] == 3
    assert [sent.split("-")[2] for sent in server.headers("traceparent")] == [f"{span.context.span_id:016x}"]
    assert server.headers("x-mine") == ["1"]
    assert seen == methods


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests"])
def test_a_class_that_sends_again_makes_as_many_calls(library, server, instrumented):
    module = pytest.importorskip(library)
    base = module.Session if library == "requests" else module.Client

    class Retrying(base):
        def send(self, request, **given):
            server.status = 503
            assert super().send(request, **given).status_code == 503
            server.status = 200
            return super().send(request, **given)

    with Retrying() as client:
        assert client.post(f"{server.url}/generate", json=BODY).json() == SGLANG

    refused, answered = instrumented.spans
    assert refused.attributes["error.type"] == "503"
    assert "error.type" not in answered.attributes
    sent = [{key.lower(): value for key, value in headers}["traceparent"] for _, headers in server.requests]
    assert [one.split("-")[2] for one in sent] == [f"{span.context.span_id:016x}" for span in (refused, answered)]


def test_a_class_that_answers_by_itself_sends_nothing_and_has_no_call(server, instrumented):
    httpx = pytest.importorskip("httpx")

    class Cached(httpx.Client):
        def send(self, request, **_):
            return httpx.Response(200, json={"mine": True}, request=request)

    with Cached() as client:
        assert client.post(f"{server.url}/generate", json=BODY).json() == {"mine": True}
    assert instrumented.spans == []
    assert server.requests == []
