"""``rl.tool.outcome`` of LangChain's tools, sizes and repetitions, with the official instrumentor and without."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from pydantic import BaseModel

pytest.importorskip("langgraph")
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import otel_rl

VALIDATION = "pydantic_core._pydantic_core.ValidationError"


class Number(BaseModel):
    n: int


@tool
def half(n: int) -> float:
    """Halves."""
    return n / 2


@tool
def hangs(n: int) -> int:
    """Runs a program for too long."""
    raise subprocess.TimeoutExpired("python", n)


@tool
def boom(n: int) -> int:
    """Raises."""
    raise ValueError("planted secret")


@tool
def parses(n: int) -> int:
    """Raises a validation error of its own."""
    return Number(n="many").n


@tool
def returns_an_error(n: int) -> object:
    """Returns an exception object."""
    return ERRORS[n]


def _fails_softly(n: int) -> int:
    raise ToolException("soft")


ERRORS = {1: ValueError("planted secret"), 2: TimeoutError()}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
soft = StructuredTool.from_function(_fails_softly, name="soft", description="-", handle_tool_error=True)
tolerant = StructuredTool.from_function(half.func, name="tolerant", description="-", handle_validation_error=True)
#: As langchain-mcp-adapters makes them: nothing is validated before the function is called.
by_schema = StructuredTool(name="by_schema", description="-", args_schema=SCHEMA, func=half.func)


class Written(BaseTool):
    """A tool that is a class."""

    name: str = "written"
    description: str = "-"
    args_schema: dict = SCHEMA

    def _run(self, n: int) -> int:
        return n


#: tool, arguments, whether it raises, outcome, error.type
CASES = [
    (half, {"n": 1}, False, "ok", None),
    (half, {"n": "many"}, True, "invalid_arguments", VALIDATION),
    (half, {}, True, "invalid_arguments", VALIDATION),
    (tolerant, {"n": "many"}, False, "invalid_arguments", "invalid_arguments"),
    (by_schema, {"m": 1}, True, "invalid_arguments", "TypeError"),
    (Written(), {"m": 1}, True, "invalid_arguments", "TypeError"),
    (parses, {"n": 1}, True, "tool_error", VALIDATION),
    (boom, {"n": 1}, True, "tool_error", "ValueError"),
    (soft, {"n": 1}, False, "tool_error", "tool_error"),
    (hangs, {"n": 1}, True, "timeout", "subprocess.TimeoutExpired"),
    (returns_an_error, {"n": 1}, False, "tool_error", "ValueError"),
    (returns_an_error, {"n": 2}, False, "timeout", "TimeoutError"),
]


def _ended(recorded, name):
    span = recorded.span(f"execute_tool {name}")
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    found = span.attributes["rl.tool.outcome"], span.attributes.get("error.type")
    assert (point.attributes["rl.tool.outcome"], point.attributes.get("error.type")) == found
    return found


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("called", "arguments", "raises", "outcome", "kind"), CASES)
async def test_every_kind_of_failure_has_its_outcome_and_its_class(
    mode, recorded, called, arguments, raises, outcome, kind, asynchronous
):
    given = {**arguments}
    if raises:
        with pytest.raises(Exception):  # noqa: B017, PT011 - the table says of which class
            await called.ainvoke(given) if asynchronous else called.invoke(given)
    else:
        result = await called.ainvoke(given) if asynchronous else called.invoke(given)
        if called is returns_an_error:
            assert result is ERRORS[arguments["n"]]
    assert _ended(recorded, called.name) == (outcome, kind)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("called", "arguments", "raises", "outcome", "kind"), CASES)
async def test_calls_of_a_model_have_the_same_outcomes(
    mode, recorded, called, arguments, raises, outcome, kind, asynchronous
):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([called], handle_tool_errors=True))
    graph.add_edge(START, "tools")
    wanted = {"name": called.name, "args": arguments, "id": "c1", "type": "tool_call"}
    messages = {"messages": [AIMessage("", tool_calls=[wanted])]}
    compiled = graph.compile()
    await compiled.ainvoke(messages) if asynchronous else compiled.invoke(messages)
    assert _ended(recorded, called.name) == (outcome, kind)


async def test_a_cancelled_tool_says_so(mode, recorded):
    begun = asyncio.Event()

    @tool
    async def waits(n: int) -> int:
        """Waits."""
        begun.set()
        await asyncio.Event().wait()
        return n

    task = asyncio.create_task(waits.ainvoke({"n": 1}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _ended(recorded, "waits") == ("cancelled", "asyncio.exceptions.CancelledError")


def test_an_unknown_tool_says_so(mode, recorded):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([half]))
    graph.add_edge(START, "tools")
    wanted = {"name": "invented", "args": {}, "id": "c1", "type": "tool_call"}
    graph.compile().invoke({"messages": [AIMessage("", tool_calls=[wanted])]})
    assert _ended(recorded, "invented") == ("unknown_tool", "unknown_tool")


def test_sizes_are_those_of_plain_values_and_of_the_text_of_a_message(ours, recorded):
    half.invoke({"n": 1})
    half.invoke({"name": "half", "args": {"n": 10}, "id": "c1", "type": "tool_call"})
    called, asked = (span.attributes for span in recorded.spans)
    assert (called["rl.tool.arguments.size"], called["rl.tool.result.size"]) == (len('{"n":1}'), len("0.5"))
    assert (asked["rl.tool.arguments.size"], asked["rl.tool.result.size"]) == (len('{"n":10}'), len('"5.0"'))


def test_a_result_that_is_no_plain_value_is_not_looked_at(ours, recorded):
    class Lazy:
        @property
        def content(self):
            raise AssertionError

        def __len__(self):
            raise AssertionError

    @tool
    def query(n: int) -> object:
        """Returns what is read later."""
        return Lazy()

    assert type(query.invoke({"n": 1})) is Lazy
    assert "rl.tool.result.size" not in recorded.span("execute_tool query").attributes


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_with_retry_numbers_the_repetitions(mode, recorded, asynchronous):
    left = [2]

    @tool
    def fetch(key: str) -> str:
        """Fails at first."""
        if left[0]:
            left[0] -= 1
            raise TimeoutError
        return key

    steady = fetch.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    with otel_rl.rollout():
        for _ in range(2):
            assert (await steady.ainvoke({"key": "a"}) if asynchronous else steady.invoke({"key": "a"})) == "a"
    totals = recorded.span("rl.rollout").attributes
    assert (totals["rl.rollout.tool_calls"], totals["rl.rollout.tool_errors"]) == (4, 2)
    assert totals["rl.rollout.tool_retries"] == 2
    if mode == "ours":
        spans = [span for span in recorded.spans if span.name == "execute_tool fetch"]
        assert [span.attributes.get("rl.tool.retry") for span in spans] == [None, 1, 2, None]
