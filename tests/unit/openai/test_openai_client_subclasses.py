"""Clients of a program's own classes: one span per call, one trace context, and what the class does stays."""

from __future__ import annotations

import sys
from typing import Any

import openai
import pytest

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


class Client(openai.OpenAI):
    """Overrides what is public and what programs override in spite of its name."""

    def __init__(self, **given):
        super().__init__(**given)
        self.seen = []

    def request(self, cast_to, options, **given):
        self.seen.append("request")
        answer = super().request(cast_to, options, **given)
        self.seen.append(type(answer).__name__)
        return answer

    def post(self, path, **given):
        # The resources hold the method of the instance.
        self.seen.append("post")
        return super().post(path, **given)

    @property
    def default_headers(self):
        return {**super().default_headers, "x-mine": "1"}

    def _prepare_request(self, request):
        self.seen.append("_prepare_request")

    def _build_headers(self, options, **given):
        self.seen.append("_build_headers")
        return super()._build_headers(options, **given)


class AsyncClient(openai.AsyncOpenAI):
    def __init__(self, **given):
        super().__init__(**given)
        self.seen = []

    async def request(self, cast_to, options, **given):
        self.seen.append("request")
        return await super().request(cast_to, options, **given)

    @property
    def default_headers(self):
        return {**super().default_headers, "x-mine": "1"}


class OfTheClass(Client):
    """A class of a class, with a new method beside those of the library."""

    def ask(self, text):
        return self.chat.completions.create(model="tiny", messages=[{"role": "user", "content": text}])


STEPS = ["post", "request", "_build_headers", "_prepare_request"]


def _expect_one_call(recorded, server, **expected):
    [span] = recorded.spans
    for name, value in expected.items():
        assert span.attributes[name.replace("__", ".")] == value
    [(_, headers, _)] = server.requests
    assert headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"
    assert headers["x-mine"] == "1"
    return span


@pytest.fixture
def settings(server, instrumented):
    return {"api_key": "none", "base_url": server.base_url, "max_retries": 2}


def test_a_call_of_a_subclass_is_one_call_and_runs_what_the_class_adds(recorded, server, settings):
    with Client(**settings) as client:
        answer = client.chat.completions.create(**CHAT)
        assert type(answer).__name__ == "ChatCompletion"
        assert client.seen == [*STEPS, "ChatCompletion"]
    _expect_one_call(recorded, server, gen_ai__usage__output_tokens=3)


def test_a_stream_of_a_subclass_is_one_call_and_keeps_its_type(recorded, server, settings):
    with Client(**settings) as client:
        stream = client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})
        assert type(stream) is openai.Stream
        assert list(stream)
        assert client.seen == [*STEPS, "Stream"]
    _expect_one_call(recorded, server, gen_ai__usage__output_tokens=3, rl__inference__stream__ended="completed")


def test_a_class_of_a_class_and_a_copy_with_other_options_are_clients_too(recorded, server, settings):
    with OfTheClass(**settings) as client:
        assert client.ask("hi").usage.completion_tokens == 3
        _expect_one_call(recorded, server)
        recorded.clear()
        server.requests.clear()
        copy = client.with_options(timeout=5.0)
        assert type(copy) is OfTheClass
        copy.ask("hi")
        assert copy.seen[0] == "post"
    _expect_one_call(recorded, server)


async def test_a_call_of_an_async_subclass_is_one_call(recorded, server, settings):
    async with AsyncClient(**settings) as client:
        assert (await client.chat.completions.create(**CHAT)).usage.completion_tokens == 3
        assert client.seen == ["request"]
    _expect_one_call(recorded, server, gen_ai__usage__output_tokens=3)


async def test_a_stream_of_an_async_subclass_is_one_call(recorded, server, settings):
    async with AsyncClient(**settings) as client:
        stream = await client.chat.completions.create(**CHAT, stream=True)
        assert type(stream) is openai.AsyncStream
        assert [chunk async for chunk in stream]
    _expect_one_call(recorded, server, rl__inference__stream__ended="completed")


def test_a_class_that_sends_again_makes_as_many_calls(recorded, server, settings):
    class Twice(Client):
        def request(self, *args, **given):
            super().request(*args, **given)
            return super().request(*args, **given)

    with Twice(**settings) as client:
        client.chat.completions.create(**CHAT)
    spans = {f"{span.context.span_id:016x}" for span in recorded.spans}
    assert len(spans) == 2
    assert {headers["traceparent"].split("-")[2] for _, headers, _ in server.requests} == spans


def test_a_class_that_makes_an_error_of_its_own_raises_it_and_the_call_was_none(recorded, server, settings):
    class MineError(Exception):
        """Of the program."""

    class Strict(Client):
        def request(self, *args, **given):
            super().request(*args, **given)
            raise mine

    mine = MineError()
    with Strict(**settings) as client, pytest.raises(MineError) as raised:
        client.chat.completions.create(**CHAT)
    assert raised.value is mine
    span = _expect_one_call(recorded, server, gen_ai__usage__output_tokens=3)
    assert "error.type" not in span.attributes


def test_a_client_for_http_of_a_class_of_its_own_adds_no_call(recorded, server, settings):
    from importlib.metadata import entry_points

    name = "httpx2" if "httpx2" in vars(sys.modules["openai._base_client"]) else "httpx"
    httpx = sys.modules[name]

    class Http(httpx.Client):
        def send(self, request, **given):
            request.headers["x-http"] = "1"
            return super().send(request, **given)

    [found] = entry_points(group="opentelemetry_instrumentor", name=f"otel_rl_{name}")
    instrumentor = found.load()()
    instrumentor.instrument(skip_dep_check=True)
    try:
        with Client(**settings, http_client=Http()) as client:
            client.chat.completions.create(**CHAT)
    finally:
        instrumentor.uninstrument()
    _expect_one_call(recorded, server)
    assert server.requests[0][1]["x-http"] == "1"


@pytest.mark.parametrize("wanted", ["chat", "embeddings"])
def test_a_resource_of_a_class_of_its_own_is_called(wanted, recorded, server, settings):
    from openai.resources.chat.completions import Completions
    from openai.resources.embeddings import Embeddings

    class Counting(Completions):
        def create(self, **given):
            client.seen.append("create")
            return super().create(**given)

    class Fewer(Embeddings):
        def create(self, *, input, **given):  # noqa: A002 - the library's name
            client.seen.append("create")
            return super().create(input=input[:1], **given)

    with Client(**settings) as client:
        if wanted == "chat":
            Counting(client).create(**CHAT)
        else:
            Fewer(client).create(model="tiny", input=["a", "b"])
            assert server.requests[0][2]["input"] == ["a"]
        assert client.seen[0] == "create"
    _expect_one_call(recorded, server)
