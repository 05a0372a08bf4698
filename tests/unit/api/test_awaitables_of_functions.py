"""A decorated function that is no coroutine function, and returns what is to be awaited."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import types
import warnings

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.api import user_messages
from otel_rl.telemetry import deferral, drops
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import trajectories

DECORATORS = [
    otel_rl.rollout(),
    otel_rl.reward_function("f"),
    otel_rl.tool("t"),
    otel_rl.span("s"),
    otel_rl.phase("sample"),
    otel_rl.llm("m"),
]


@pytest.fixture(autouse=True)
def _messages():
    user_messages.forget()
    yield
    user_messages.forget()


def logged(function):
    """A usual decorator, which makes a plain function of a coroutine function."""

    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


async def answer(value):
    await asyncio.sleep(0)
    with otel_rl.tool("inside"):
        await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


def rows(recorded):
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    return [record.body for record in recorded.events("rl.trajectories")]


def test_a_rollout_goes_on_until_the_end_of_its_coroutine(recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    collect = otel_rl.rollout()(logged(answer))

    async def main():
        return await asyncio.gather(collect(1), collect(ValueError("lost")), collect(3), return_exceptions=True)

    one, error, three = asyncio.run(main())
    assert (one, str(error), three) == (1, "lost", 3)
    [row] = rows(recorded)
    assert sorted(zip(row["rl.rollout.status"], row["rl.rollout.tool_calls"], strict=True)) == [
        ("failed", 1),
        ("finished", 1),
        ("finished", 1),
    ]
    spans = [span for span in recorded.spans if span.name == "rl.rollout"]
    assert sorted(span.attributes.get("rl.rollout.output", "") for span in spans) == ["", "1", "3"]
    inside = [span for span in recorded.spans if "inside" in span.name]
    assert {span.parent.span_id for span in inside} == {span.context.span_id for span in spans}
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_coroutine_of_a_reward_function_has_its_score(recorded):
    correct = otel_rl.reward_function("correct")(logged(answer))

    async def main():
        with otel_rl.rollout():
            return await correct(0.7)

    assert asyncio.run(main()) == 0.7
    assert rows(recorded)[0]["rl.rollout.reward"] == [0.7]


@pytest.mark.parametrize("decorate", DECORATORS)
def test_it_is_a_coroutine_like_that_of_the_function(recorded, decorate):
    collect = decorate(logged(answer))
    coroutine = collect(1)
    assert inspect.iscoroutine(coroutine)
    assert type(coroutine) is types.CoroutineType
    assert (coroutine.__name__, coroutine.__qualname__) == ("answer", "answer")
    assert trace.get_current_span() is trace.INVALID_SPAN

    async def main():
        return await asyncio.create_task(coroutine)

    assert asyncio.run(main()) == 1
    [span] = [span for span in recorded.spans if "inside" not in span.name]
    [inside] = [span for span in recorded.spans if "inside" in span.name]
    assert inside.parent.span_id == span.context.span_id
    assert span.start_time <= inside.start_time
    assert inside.end_time <= span.end_time


def test_a_task_that_is_cancelled_is_a_cancelled_rollout(recorded):
    collect = otel_rl.rollout()(logged(asyncio.sleep))

    async def main():
        task = asyncio.create_task(collect(1000))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert rows(recorded)[0]["rl.rollout.status"] == ["cancelled"]


def test_what_nobody_awaits_is_warned_of_once(recorded):
    collect = otel_rl.rollout()(logged(answer))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        collect(1)
    said = [str(one.message) for one in caught]
    # Python keeps what it warns of as the source of the warning.
    caught.clear()
    gc.collect()
    assert said == ["coroutine 'answer' was never awaited"]
    assert rows(recorded)[0]["rl.rollout.status"] == ["cancelled"]


def test_a_future_stays_the_object_that_it_is_and_a_line_says_that_it_is_not_followed(recorded, capfd):
    async def main():
        tasks = [asyncio.ensure_future(answer(number)) for number in range(3)]
        hand_out = otel_rl.rollout()(lambda number: tasks[number])
        assert [hand_out(number) for number in range(3)] == tasks
        return await asyncio.gather(*tasks)

    before = drops.snapshot().get(("traces", "unfollowed_awaitable"), 0)
    assert asyncio.run(main()) == [0, 1, 2]
    assert drops.snapshot()["traces", "unfollowed_awaitable"] == before + 3
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "decorate the coroutine function that does the work" in said


def test_a_coroutine_that_has_begun_is_somebody_elses(recorded):
    async def main():
        coroutine = answer(5)
        coroutine.send(None)
        assert otel_rl.rollout()(lambda: coroutine)() is coroutine
        coroutine.close()

    asyncio.run(main())


def test_without_telemetry_the_coroutine_is_that_of_the_function(monkeypatch):
    monkeypatch.setattr(otel_rl, "_enabled", lambda: False)
    coroutine = answer(1)
    assert otel_rl.rollout()(lambda: coroutine)() is coroutine
    assert asyncio.run(coroutine) == 1


def test_an_open_step_has_its_phases_when_a_phase_returns_a_coroutine(recorded):
    sample = otel_rl.phase("sample")(logged(answer))

    async def main():
        with otel_rl.step(1):
            with otel_rl.phase("train"):
                await sample(1)

    asyncio.run(main())
    deferral.drain_all()
    assert {"rl.sample", "rl.train"} <= {span.name for span in recorded.spans}
