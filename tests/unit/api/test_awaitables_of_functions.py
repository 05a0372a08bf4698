"""A decorated function that is no coroutine function, and returns what is to be awaited."""

from __future__ import annotations

import asyncio
import functools
import warnings

import pytest

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
    return value


def unfollowed():
    return drops.snapshot().get(("traces", "unfollowed_awaitable"), 0)


@pytest.mark.parametrize("decorate", DECORATORS)
def test_a_coroutine_is_that_of_the_function_wherever_the_program_keeps_it(recorded, decorate, capfd):
    kept, before = [], unfollowed()

    @decorate
    def submit(value):
        kept.append(answer(value))
        return kept[-1]

    async def main():
        # What the call returns is dropped at once.
        for number in range(3):
            submit(number)
        assert submit(3) is kept[3]
        return await asyncio.gather(*kept)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(main()) == [0, 1, 2, 3]
    assert unfollowed() == before + 4
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "decorate the coroutine function that does the work" in said


def test_a_future_stays_the_object_that_it_is(recorded):
    async def main():
        tasks = [asyncio.ensure_future(answer(number)) for number in range(3)]
        hand_out = otel_rl.rollout()(lambda number: tasks[number])
        assert [hand_out(number) for number in range(3)] == tasks
        return await asyncio.gather(*tasks)

    before = unfollowed()
    assert asyncio.run(main()) == [0, 1, 2]
    assert unfollowed() == before + 3


def test_an_awaitable_is_no_result(recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    collect = otel_rl.rollout()(logged(answer))
    assert asyncio.run(collect(1)) == 1
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    [span] = [span for span in recorded.spans if span.name == "rl.rollout"]
    assert "rl.rollout.output" not in span.attributes


def test_a_class_that_answers_every_name_is_no_awaitable(recorded):
    class Answers(type):
        def __getattr__(cls, name):
            raise RuntimeError(name)

    class Config(metaclass=Answers):
        pass

    before, config = unfollowed(), Config()
    assert otel_rl.rollout()(lambda: config)() is config
    assert unfollowed() == before


def test_without_telemetry_the_coroutine_is_that_of_the_function(monkeypatch):
    monkeypatch.setattr(otel_rl, "_enabled", lambda: False)
    coroutine = answer(1)
    assert otel_rl.rollout()(lambda: coroutine)() is coroutine
    assert asyncio.run(coroutine) == 1
