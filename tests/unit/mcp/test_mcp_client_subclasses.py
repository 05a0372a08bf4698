"""Sessions of a program's own classes: one span per request, one trace context, and what the class does stays."""

from __future__ import annotations

import json

import pytest
from mcp import ClientSession
from support.mcp_sessions import streams, text_of


class MineError(Exception):
    """Of the program."""


class Session(ClientSession):
    """Overrides the method that programs call, and the one below it."""

    def __init__(self, *streams, **given):
        super().__init__(*streams, **given)
        self.seen = []

    async def call_tool(self, name, arguments=None, *further, **given):
        self.seen.append(("call_tool", name))
        result = await super().call_tool(name, {**(arguments or {}), **self.added}, *further, **given)
        if name == "add" and self.added.get("b") == 0:
            raise MineError
        return result

    async def send_request(self, request, *further, **given):
        self.seen.append(("send_request", type(request).__name__))
        return await super().send_request(request, *further, **given)

    added: dict = {}  # noqa: RUF012 - each test has one of its own


class OfTheClass(Session):
    """A class of a class."""


async def _opened(url, kind, tool, arguments, added):
    async with streams(url) as both, kind(*both) as session:
        await session.initialize()
        session.seen.clear()
        session.added = added
        try:
            return text_of(await session.call_tool(tool, arguments)), session.seen
        except MineError as error:
            return error, session.seen


@pytest.mark.parametrize("kind", [Session, OfTheClass])
async def test_a_tool_call_of_a_subclass_is_one_span_and_runs_what_the_class_adds(kind, instrumented, url):
    text, seen = await _opened(url, kind, "add", {"a": 1}, {"b": 2})
    assert text == "3"
    # mcp 2.x may list the tools before the result of the first is checked.
    assert [method for method, _ in seen][:2] == ["call_tool", "send_request"]
    spans = [span for span in instrumented.spans if "add" in span.name]
    assert len(spans) == 1
    assert spans[0].attributes["gen_ai.tool.name"] == "add"


async def test_the_request_of_a_subclass_carries_the_trace_context_of_its_span(instrumented, url):
    text, _ = await _opened(url, Session, "meta", {}, {})
    [span] = [span for span in instrumented.spans if span.name == "tools/call meta"]
    traceparent = json.loads(text)["traceparent"]
    assert traceparent.split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


async def test_what_a_subclass_raises_of_its_own_reaches_the_program(instrumented, url):
    error, _ = await _opened(url, Session, "add", {"a": 1}, {"b": 0})
    assert type(error) is MineError
    [span] = [span for span in instrumented.spans if "add" in span.name]
    assert span.end_time is not None
