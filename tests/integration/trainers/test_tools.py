"""GRPO with ``tools=[...]``: the calls that TRL makes are timed, and the tools stay what they are."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import time
from collections import Counter

import pytest
import transformers
from online_trainers import CHATS, tool_calling_trainer
from pydantic import BaseModel, validate_call

from otel_rl.core import settings
from otel_rl.instrumentors.trl.tools import FinishedToolCall, ToolCalls, _Content
from otel_rl.telemetry import Scope, drops
from otel_rl.training import steps

CALLS = ("add", "slow", "fail", "invented")


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: first
        b: second
    """
    return a + b


async def slow(a: int, b: int) -> int:
    """Adds two numbers slowly.

    Args:
        a: first
        b: second
    """
    await asyncio.sleep(0.02)
    return a + b


def fail(a: int, b: int) -> int:
    """Fails.

    Args:
        a: first
        b: second
    """
    raise ValueError("secret")


def reward(completions, **_):
    return [float(len(completion)) for completion in completions]


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """A trainer whose model is made to call a tool per completion: a random one never does."""
    if int(transformers.__version__.partition(".")[0]) < 5:
        pytest.skip("TRL's tools need transformers 5")
    return tool_calling_trainer(
        tmp_path,
        monkeypatch,
        lambda turn: (CALLS[turn], {"a": 1, "b": 2}) if turn < len(CALLS) else None,
        CHATS,
        reward_funcs=reward,
        tools=[add, slow, fail],
    )


def test_the_calls_of_a_step_are_recorded_and_the_trainer_and_its_tools_stay_as_they_are(
    instrumented, recorded, trainer
):
    trainer.train()

    _check_spans(recorded)
    _check_histogram_and_unknown_tool(recorded)
    [entry] = [entry for entry in trainer.state.log_history if "tools/failure_frequency" in entry]
    assert entry["tools/call_frequency"] == 1.0
    assert entry["tools/failure_frequency"] == 0.5
    for tools in trainer._sync_tool_dicts:
        assert tools["add"] is add
    for tools in trainer._async_tool_dicts:
        assert type(tools) is dict
        assert tools["slow"] is slow


def _check_histogram_and_unknown_tool(recorded):
    points = recorded.metrics()["gen_ai.execute_tool.duration"]
    found = Counter((point.attributes["gen_ai.tool.name"], point.attributes.get("error.type")) for point in points)
    expected = [("add", None), ("slow", None), ("fail", "ValueError"), ("_OTHER", "unknown_tool")]
    assert found == Counter(expected)
    [event] = recorded.events("rl.tool.unknown")
    assert event.attributes["gen_ai.tool.name"] == "invented"


def _check_spans(recorded):
    """Inside of sampling, with their times."""
    spans = {span.name: span for span in recorded.spans if span.name.startswith("execute_tool")}
    outcomes = {name.removeprefix("execute_tool "): span.attributes["rl.tool.outcome"] for name, span in spans.items()}
    assert outcomes == {"add": "ok", "slow": "ok", "fail": "tool_error", "invented": "unknown_tool"}
    assert spans["execute_tool add"].attributes["rl.tool.arguments.size"] == len('{"a":1,"b":2}')
    assert spans["execute_tool add"].attributes["rl.tool.result.size"] == 1
    sampling = recorded.span("rl.sample")
    for span in spans.values():
        assert span.parent.span_id == sampling.context.span_id
        assert sampling.start_time <= span.start_time <= span.end_time <= sampling.end_time
        assert span.attributes["gen_ai.operation.name"] == "execute_tool"
    assert spans["execute_tool slow"].end_time - spans["execute_tool slow"].start_time >= 20e6
    assert spans["execute_tool fail"].attributes["error.type"] == "ValueError"
    assert not any("secret" in str(span.to_json()) for span in spans.values())


def test_arguments_and_results_are_recorded_where_content_capture_is_on(instrumented, recorded, trainer, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    trainer.train()

    content = {
        span.name: [span.attributes.get(f"gen_ai.tool.call.{part}") for part in ("arguments", "result")]
        for span in recorded.spans
        if span.name.startswith("execute_tool")
    }
    assert content == {
        "execute_tool add": ['{"a": 1, "b": 2}', "3"],
        "execute_tool slow": ['{"a": 1, "b": 2}', "3"],
        "execute_tool fail": ['{"a": 1, "b": 2}', None],
        "execute_tool invented": [None, None],
    }


def test_content_is_kept_of_the_calls_that_are_shown_and_of_no_other(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(slowest=2))
    content = _Content()
    calls = [
        FinishedToolCall(duration, 0, "work", "ValueError" if duration in (1, 2, 3) else "") for duration in range(10)
    ]
    for call in calls:
        content.add(call, {"n": call.duration}, None)

    shown = [call.duration for call in calls if content.of(call)]
    assert shown == [1, 2, 8, 9]


def test_a_watched_tool_keeps_name_signature_kind_and_pickles_as_itself():
    watched = ToolCalls().watch({"add": add, "slow": slow})

    assert watched["add"].__name__ == "add"
    assert inspect.signature(watched["add"]) == inspect.signature(add)
    assert inspect.iscoroutinefunction(watched["slow"])
    assert not inspect.iscoroutinefunction(watched["add"])
    assert pickle.loads(pickle.dumps(watched["add"])) is add  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(watched["slow"])) is slow  # noqa: S301 - our own bytes
    assert watched["add"](1, b=2) == 3
    assert asyncio.run(watched["slow"](1, 2)) == 3


def test_a_tool_that_is_indexed_without_asking_is_unknown_and_raises_as_before(recorded):
    calls = ToolCalls()
    with pytest.raises(KeyError) as caught:
        calls.watch_last({"add": add})["invented"]
    calls.finish()

    assert caught.value.args == ("invented",)
    assert [event.attributes["gen_ai.tool.name"] for event in recorded.events("rl.tool.unknown")] == ["invented"]


def test_only_the_slowest_and_the_first_failed_calls_become_spans(recorded, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(slowest=2))
    drops.reset()

    def work(seconds):
        time.sleep(abs(seconds))
        if seconds < 0:
            raise TimeoutError

    calls = ToolCalls()
    tool = calls.watch({"work": work})["work"]
    for seconds in (0, 0.03, 0, 0.06, -0.001, -0.001, -0.001):
        if seconds < 0:
            with pytest.raises(TimeoutError):
                tool(seconds)
        else:
            tool(seconds)
    steps.begin(1, Scope("test"))
    calls.finish()

    spans = [span for span in recorded.spans if span.name == "execute_tool work"]
    durations = sorted((span.end_time - span.start_time) / 1e9 for span in spans)
    assert len(spans) == 4
    assert durations[2] >= 0.03
    assert durations[3] >= 0.06
    assert sum("error.type" in span.attributes for span in spans) == 2
    assert drops.snapshot()["traces", "failed_tool_call"] == 1
    assert sum(point.count for point in recorded.metrics()["gen_ai.execute_tool.duration"]) == 7


def test_of_many_unknown_tools_the_first_are_events_and_the_others_are_counted(recorded, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(slowest=2))
    drops.reset()
    calls = ToolCalls()
    tools = calls.watch_last({})
    assert not any(name in tools for name in ("one", "two", "three"))
    calls.finish()

    assert [event.attributes["gen_ai.tool.name"] for event in recorded.events("rl.tool.unknown")] == ["one", "two"]
    assert drops.snapshot()["logs", "unknown_tool"] == 1
    points = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert [(point.count, point.attributes["rl.tool.outcome"]) for point in points] == [(3, "unknown_tool")]


class Refused(BaseModel):
    n: int


def _hangs():
    raise subprocess.TimeoutExpired("python", 5)


def _parses_itself():
    return Refused(n="many")


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome", "kind"),
    [
        (add, {"a": 1}, "invalid_arguments", "TypeError"),
        (slow, {"a": 1}, "invalid_arguments", "TypeError"),
        (validate_call(add), {"a": "one", "b": 2}, "invalid_arguments", "pydantic_core._pydantic_core.ValidationError"),
        (add, {"a": "one", "b": 2}, "tool_error", "TypeError"),
        (_parses_itself, {}, "tool_error", "pydantic_core._pydantic_core.ValidationError"),
        (fail, {"a": 1, "b": 2}, "tool_error", "ValueError"),
        (_hangs, {}, "timeout", "subprocess.TimeoutExpired"),
    ],
)
def test_every_kind_of_failure_has_its_outcome_and_its_class(recorded, tool, arguments, outcome, kind):
    calls = ToolCalls()
    watched = calls.watch({"tool": tool}, 0)["tool"]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the table says of which class
        asyncio.run(watched(**arguments)) if tool is slow else watched(**arguments)
    calls.finish()

    assert kind.rpartition(".")[2] == type(caught.value).__name__
    span = recorded.span("execute_tool tool")
    assert (span.attributes["rl.tool.outcome"], span.attributes["error.type"]) == (outcome, kind)
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert (point.attributes["rl.tool.outcome"], point.attributes["error.type"]) == (outcome, kind)
    assert calls.failures == {0: 1}


async def test_a_cancelled_tool_says_so(recorded):
    calls = ToolCalls()
    begun = asyncio.Event()

    async def waits():
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(calls.watch({"waits": waits})["waits"]())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    calls.finish()
    assert recorded.span("execute_tool waits").attributes["rl.tool.outcome"] == "cancelled"


def test_an_exception_object_is_handed_on_and_is_a_failure(recorded):
    calls = ToolCalls()
    returned = ValueError("secret")

    assert calls.watch({"work": lambda: returned}, 3)["work"]() is returned
    calls.finish()
    span = recorded.span("execute_tool work")
    assert (span.attributes["rl.tool.outcome"], span.attributes["error.type"]) == ("tool_error", "ValueError")
    assert "secret" not in str(span.to_json())
    assert calls.failures == {3: 1}


def test_repetitions_of_a_failed_call_are_numbered_by_sample(recorded):
    calls = ToolCalls()
    left = {"a": 2, "b": 0}

    def fetch(key, sample):
        if left[key] > 0:
            left[key] -= 1
            raise TimeoutError
        return key

    tools = [calls.watch({"fetch": fetch}, place)["fetch"] for place in range(2)]
    for _ in range(2):
        with pytest.raises(TimeoutError):
            tools[0]("a", sample=0)
    tools[1]("b", sample=1)
    tools[0]("a", sample=0)
    tools[0]("a", sample=0)
    calls.finish()

    spans = sorted((span for span in recorded.spans if "fetch" in span.name), key=lambda span: span.start_time)
    assert [span.attributes.get("rl.tool.retry") for span in spans] == [None, 1, None, 2, None]


def test_a_call_with_deeply_nested_arguments_is_recorded_like_any_other(recorded):
    def work(value):
        raise TimeoutError

    deep = []
    for _ in range(990):
        deep = [deep]
    calls = ToolCalls()
    tool = calls.watch({"work": work}, 0)["work"]
    with pytest.raises(TimeoutError):
        tool(deep)
    calls.finish()
    [span] = recorded.spans
    assert span.attributes["rl.tool.outcome"] == "timeout"
    assert calls.failures == {0: 1}


def test_what_is_no_plain_value_is_neither_measured_nor_compared(recorded):
    class Lazy(list):
        def __iter__(self):
            raise AssertionError

        __len__ = __repr__ = __iter__

    calls = ToolCalls()
    tool = calls.watch({"work": lambda value: value}, 0)["work"]
    for value in (Lazy(), list(range(10_000)), 10**5000):
        assert tool(value) is value
    calls.finish()
    for span in recorded.spans:
        assert not {"rl.tool.arguments.size", "rl.tool.result.size"} & span.attributes.keys()
