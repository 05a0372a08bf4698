"""``otel_rl.tool`` records arguments and results where content capture is on, and nothing of them elsewhere."""

from __future__ import annotations

import asyncio
import json

import pytest

import otel_rl
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE

ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"


@pytest.fixture
def captured(monkeypatch, recorded):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    return recorded


def _content(recorded):
    (span,) = [span for span in recorded.spans if span.name == "execute_tool search"]
    return {key: json.loads(span.attributes[key]) for key in (ARGUMENTS, RESULT) if key in span.attributes}


def test_a_decorated_function_records_its_arguments_by_name_and_its_result(captured):
    @otel_rl.tool("search")
    def search(query, *more, limit=3, **options):
        return {"hits": [query, limit]}

    assert search("q", 1, limit=2, lang="en") == {"hits": ["q", 2]}
    assert _content(captured) == {
        ARGUMENTS: {"query": "q", "limit": 2, "more": [1], "options": {"lang": "en"}},
        RESULT: {"hits": ["q", 2]},
    }


def test_a_decorated_coroutine_function_records_them_too(captured):
    @otel_rl.tool("search")
    async def search(query):
        await asyncio.sleep(0)
        return [query]

    assert asyncio.run(search("q")) == ["q"]
    assert _content(captured) == {ARGUMENTS: {"query": "q"}, RESULT: ["q"]}


def test_the_instance_of_a_method_is_no_argument(captured):
    class Environment:
        @otel_rl.tool("search")
        def step(self, action):
            return action

    Environment().step("go")
    assert _content(captured) == {ARGUMENTS: {"action": "go"}, RESULT: "go"}


def test_a_callable_object_records_its_arguments_by_position(captured):
    class Tool:
        def __call__(self, query):
            return query

    otel_rl.tool("search")(Tool())("q")
    assert _content(captured) == {ARGUMENTS: {"args": ["q"], "kwargs": {}}, RESULT: "q"}


def test_a_decorated_generator_records_its_arguments(captured):
    @otel_rl.tool("search")
    def search(query):
        yield query

    assert list(search("q")) == ["q"]
    assert _content(captured) == {ARGUMENTS: {"query": "q"}}


def test_a_context_manager_records_what_it_is_given(captured):
    with otel_rl.tool("search", arguments={"query": "q"}) as call:
        call.result("found")
    assert _content(captured) == {ARGUMENTS: {"query": "q"}, RESULT: "found"}


def test_arguments_given_to_the_decorator_stand_for_those_of_the_calls(captured):
    @otel_rl.tool("search", arguments={"fixed": True})
    def search(query):
        return query

    search("q")
    assert _content(captured)[ARGUMENTS] == {"fixed": True}


def test_a_failed_call_has_arguments_and_no_result(captured):
    @otel_rl.tool("search")
    def search(query):
        raise ValueError(query)

    with pytest.raises(ValueError, match="q"):
        search("q")
    assert _content(captured) == {ARGUMENTS: {"query": "q"}}


def test_a_decorated_tool_returns_the_very_object_that_its_function_returned(captured):
    kept = object()
    assert otel_rl.tool("search")(lambda: kept)() is kept
    assert _content(captured).keys() == {RESULT}


def test_without_content_capture_nothing_of_them_is_recorded_or_looked_at(recorded, monkeypatch):
    monkeypatch.delenv(CAPTURE_ENVIRONMENT_VARIABLE, raising=False)

    class Secret:
        def __str__(self):
            raise AssertionError

    otel_rl.tool("search")(lambda value: value)(Secret())
    with otel_rl.tool("search", arguments=Secret()) as call:
        call.result(Secret())
    assert all(not {ARGUMENTS, RESULT} & span.attributes.keys() for span in recorded.spans)
