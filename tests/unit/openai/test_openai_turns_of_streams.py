"""Streams that the program leaves before their end are calls and turns of their rollout, wherever they were left."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import openai
import pytest
from support.fake_openai import CHUNKS

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.telemetry import model_turns
from otel_rl.training import trajectories

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}
IDS = {"extra_body": {"return_token_ids": True}}
WEATHER = {
    "index": 0,
    "delta": {
        "tool_calls": [
            {"index": 0, "id": "call-1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        ]
    },
    "finish_reason": None,
}


@pytest.fixture(autouse=True)
def no_collection():
    """What is dropped in a cycle stays, as in a loop that makes little garbage."""
    trajectories._forget()
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    record_abandoned()


def row(recorded):
    """The columns of the only trajectory, without their prefix."""
    trajectories.record()
    (body,) = [record.body for record in recorded.events("rl.trajectories")]
    return {key.removeprefix("rl.rollout."): values[0] for key, values in body.items()}


def leave(stream, chunks=1):
    for _ in range(chunks):
        next(stream)


def turns(recorded):
    gc.collect()
    record_abandoned()
    return [span.attributes.get("rl.rollout.turn") for span in recorded.spans if span.name.startswith("chat")]


@pytest.mark.parametrize("chunks", [0, 1, 3, CHUNKS + 1])
def test_streams_left_anywhere_are_turns_and_rewards_land_on_them(chunks, recorded, client):
    with otel_rl.rollout():
        for number in range(3):
            leave(client.chat.completions.create(**CHAT), chunks)
            otel_rl.reward("p", number + 1.0, turn="last")
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["model_errors"]) == (3, 3, 0)
    assert found["turn_rewards"] == [1.0, 2.0, 3.0]
    assert turns(recorded) == [1, 2, 3]
    assert recorded.span("rl.rollout").attributes["rl.rollout.turns"] == 3


async def test_async_streams_left_by_break_are_turns(recorded, async_client):
    with otel_rl.rollout():
        for number in range(3):
            async for _ in await async_client.chat.completions.create(**CHAT):
                break
            otel_rl.reward("p", number + 1.0, turn="last")
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["turn_rewards"]) == (3, 3, [1.0, 2.0, 3.0])


def test_a_row_has_the_tokens_and_the_reason_as_far_as_they_were_read(recorded, client):
    with otel_rl.rollout():
        leave(client.chat.completions.create(**CHAT, **IDS), 3)
        leave(client.chat.completions.create(**CHAT, **IDS), CHUNKS + 2)
    found = row(recorded)
    assert found["output_tokens"] == 2 * 2 + 2 * CHUNKS
    assert found["stop_reason"] == "stop"


def test_what_a_stream_brings_after_its_rollout_is_on_its_span_only(recorded, client):
    with otel_rl.rollout():
        stream = client.chat.completions.create(**CHAT, stream_options={"include_usage": True})
        next(stream)
    list(stream)
    found = row(recorded)
    assert (found["turns"], found["model_calls"]) == (1, 1)
    assert "output_tokens" not in found
    span = recorded.span("chat tiny").attributes
    assert (span["gen_ai.usage.output_tokens"], span["rl.rollout.turn"]) == (3, 1)


def test_a_stream_that_the_program_holds_counts_once(recorded, client):
    with otel_rl.rollout():
        first = client.chat.completions.create(**CHAT, stream_options={"include_usage": True})
        next(first)
        otel_rl.reward("p", 1.0, turn="last")
        list(client.chat.completions.create(**CHAT, stream_options={"include_usage": True}))
        list(first)
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["output_tokens"]) == (2, 2, 6)
    assert sorted(turns(recorded)) == [1, 2]


def test_a_stream_left_earlier_is_an_earlier_turn(recorded, client):
    with otel_rl.rollout():
        left = client.chat.completions.create(**CHAT)
        next(left)
        list(client.chat.completions.create(**{**CHAT, "model": "whole"}))
    assert row(recorded)["turns"] == 2
    assert recorded.span("chat whole").attributes["rl.rollout.turn"] == 2
    left.close()
    assert recorded.span("chat tiny").attributes["rl.rollout.turn"] == 1


def test_a_stream_that_breaks_off_is_no_turn(recorded, client):
    with otel_rl.rollout():
        with pytest.raises(openai.APIError, match="engine died"):
            list(client.chat.completions.create(**{**CHAT, "model": "breaking"}))
        list(client.chat.completions.create(**CHAT))
        otel_rl.reward("p", 1.0, turn="last")
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["model_errors"], found["turn_rewards"]) == (1, 2, 1, [1.0])
    assert turns(recorded) == [None, 1]


def test_a_stream_that_breaks_off_after_its_reward_stays_a_turn(recorded, client):
    with otel_rl.rollout():
        stream = client.chat.completions.create(**{**CHAT, "model": "breaking"})
        next(stream)
        otel_rl.reward("p", 1.0, turn="last")
        with pytest.raises(openai.APIError, match="engine died"):
            list(stream)
        list(client.chat.completions.create(**CHAT))
        otel_rl.reward("p", 2.0, turn="last")
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["model_errors"]) == (2, 2, 1)
    assert found["turn_rewards"] == [1.0, 2.0]
    assert turns(recorded) == [1, 2]


def test_a_call_without_an_answer_at_the_end_of_its_rollout_is_a_call_and_no_turn(recorded, server, client):
    with otel_rl.rollout():
        list(client.chat.completions.create(**CHAT))
        thread = threading.Thread(
            target=client.chat.completions.create, kwargs={**CHAT, "model": "slow", "stream": False}
        )
        thread.start()
        server.wait_for_slow_request()
    found = row(recorded)
    server.release.set()
    thread.join(60)
    assert (found["turns"], found["model_calls"], found["model_errors"]) == (1, 2, 0)
    assert "rl.rollout.turn" not in recorded.span("chat slow").attributes


@pytest.mark.shape("cancelled")
async def test_a_cancelled_stream_is_a_failed_call_and_no_turn(recorded, async_client):
    began = asyncio.Event()

    async def read():
        async for _ in await async_client.chat.completions.create(**{**CHAT, "model": "stalling"}):
            began.set()

    with otel_rl.rollout():
        task = asyncio.create_task(read())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    found = row(recorded)
    assert (found["turns"], found["model_calls"], found["model_errors"]) == (0, 1, 1)


def test_the_tools_of_a_stream_left_at_its_tool_call_are_known(recorded, server, client):
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    server.chunks = [{**head, "choices": [WEATHER]}, {**head, "choices": [end]}]
    result = {"role": "tool", "tool_call_id": "call-1", "content": "sunny"}
    with otel_rl.rollout():
        for chunk in client.chat.completions.create(**CHAT):
            if chunk.choices[0].finish_reason:
                break
        server.chunks = None
        client.chat.completions.create(**{**CHAT, "stream": False, "messages": [*CHAT["messages"], result]})
    found = row(recorded)
    assert (found["turns"], found["tool_calls"]) == (2, 1)
    (event,) = recorded.events("rl.tool.returned")
    assert (event.attributes["gen_ai.tool.name"], event.attributes["rl.rollout.turn"]) == ("weather", 1)


def test_a_tool_belongs_to_the_turn_of_the_stream_that_was_left(recorded, client):
    with otel_rl.rollout():
        leave(client.chat.completions.create(**CHAT))
        with otel_rl.tool("search"):
            pass
    assert recorded.span("execute_tool search").attributes["rl.rollout.turn"] == 1


def test_a_stream_that_is_dropped_ends_with_the_last_chunk_that_was_read(recorded, client, monkeypatch):
    stream = client.chat.completions.create(**CHAT)
    next(stream)
    read, read_counter = time.time_ns(), time.perf_counter()
    # The collector comes an hour later.
    later = 3600
    monkeypatch.setattr("otel_rl.inference.calls.time.time_ns", lambda: read + later * 10**9)
    monkeypatch.setattr("otel_rl.inference.calls.time.perf_counter", lambda: read_counter + later)
    del stream
    gc.collect()
    monkeypatch.undo()
    record_abandoned()
    assert recorded.span("chat tiny").end_time <= read + 10**9
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.sum < later / 2


def test_open_calls_are_bounded_and_the_first_counts_as_it_is(recorded, client, monkeypatch):
    monkeypatch.setattr(model_turns, "MOST_OPEN", 2)
    with otel_rl.rollout():
        streams = [client.chat.completions.create(**CHAT) for _ in range(4)]
        for stream in streams:
            list(stream)
    found = row(recorded)
    assert (found["turns"], found["model_calls"]) == (4, 4)
    assert sorted(turns(recorded)) == [1, 2, 3, 4]
