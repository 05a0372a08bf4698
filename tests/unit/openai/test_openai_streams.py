"""How a stream can end, and that following it leaves type, laziness and release of it alone."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import types
import weakref
from collections import deque
from typing import Any

import openai
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.fake_openai import CHUNKS

from otel_rl.inference import calls, dropped_answers, measurements
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.telemetry import progress

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}


def _end(recorded, name="chat tiny"):
    record_abandoned()
    span = recorded.span(name)
    return span.attributes.get("rl.inference.stream.ended"), span.status.status_code


def test_a_stream_keeps_its_type_and_gives_every_chunk(client):
    stream = client.chat.completions.create(**CHAT)
    assert type(stream) is openai.Stream
    assert len(list(stream)) == CHUNKS + 2
    assert list(stream) == []


def test_no_chunk_is_read_before_the_program_asks(recorded, server, client):
    stream = client.chat.completions.create(**{**CHAT, "model": "stalling"})
    assert recorded.spans == []
    next(stream)
    next(stream)
    server.release.set()
    assert len(list(stream)) == CHUNKS
    assert _end(recorded, "chat stalling") == ("completed", StatusCode.UNSET)


@pytest.fixture
def began(instrumented):
    """Calls that have begun since."""
    found = []
    progress.ended_calls()
    progress.watch_calls(found.append)
    yield found
    progress.watch_calls(None)


def _comes_to_be_read(call):
    while call.state().is_held:
        time.sleep(0.002)


def test_a_stream_is_held_while_the_program_does_not_wait_for_its_next_chunk(server, client, began):
    stream = client.chat.completions.create(**{**CHAT, "model": "stalling"})
    assert not began[0].state().is_held
    next(stream)
    next(stream)
    assert began[0].state().is_held
    reader = threading.Thread(target=list, args=(stream,))
    reader.start()
    _comes_to_be_read(began[0])
    server.release.set()
    reader.join()
    assert began[0].state() is None


async def test_an_asynchronous_stream_is_held_likewise(server, async_client, began):
    stream = await async_client.chat.completions.create(**{**CHAT, "model": "stalling"})
    await anext(stream)
    await anext(stream)
    assert began[0].state().is_held
    reader = asyncio.create_task(anext(stream))
    await asyncio.to_thread(_comes_to_be_read, began[0])
    server.release.set()
    await reader
    await stream.close()


@pytest.mark.parametrize("leave", [lambda stream: stream.close(), lambda _: gc.collect()])
def test_the_time_that_a_stream_was_held_is_known_as_none_of_its_call(client, began, leave):
    stream = client.chat.completions.create(**CHAT)
    next(stream)
    began.clear()
    leave(stream)
    del stream
    gc.collect()
    record_abandoned()
    assert [(one.failed, one.was_left) for one in progress.ended_calls()] == [(False, True)]


def test_nothing_of_ours_is_current_while_the_program_reads(client):
    for _ in client.chat.completions.create(**CHAT):
        assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.shape("stream left early")
def test_a_stream_closed_early_is_no_error(recorded, client):
    with client.chat.completions.create(**CHAT) as stream:
        next(stream)
    assert _end(recorded) == ("closed", StatusCode.UNSET)


def test_a_stream_dropped_after_some_chunks_is_abandoned(recorded, client):
    for _ in client.chat.completions.create(**CHAT):
        break
    gc.collect()
    assert _end(recorded) == ("abandoned", StatusCode.UNSET)


def test_a_stream_that_is_never_read_is_abandoned(recorded, client):
    client.chat.completions.create(**CHAT)
    gc.collect()
    assert _end(recorded) == ("abandoned", StatusCode.UNSET)


def test_an_abandoned_call_is_recorded_at_the_next_one(recorded, client):
    client.chat.completions.create(**CHAT)
    gc.collect()
    assert recorded.spans == []
    client.embeddings.create(model="tiny", input="x")
    assert recorded.span("chat tiny").end_time <= recorded.span("embeddings tiny").start_time + 10**8


def test_a_raw_response_that_is_never_parsed_ends_when_its_body_was_read(recorded, client):
    raw = client.chat.completions.with_raw_response.create(**{**CHAT, "stream": False})
    assert recorded.spans == []
    del raw
    dropped = time.time_ns()
    gc.collect()
    record_abandoned()
    assert recorded.span("chat tiny").end_time <= dropped


def _text_of_raw(client):
    return client.chat.completions.with_raw_response.create(**{**CHAT, "stream": False}).text


def _json_of_streaming(client):
    with client.chat.completions.with_streaming_response.create(**{**CHAT, "stream": False}) as response:
        return response.json()


def _http_response(client):
    http = openai._base_client.__dict__.get("httpx2") or openai._base_client.httpx
    return client.post("/chat/completions", body={**CHAT, "stream": False}, cast_to=http.Response).json()


@pytest.mark.parametrize("read", [_text_of_raw, _json_of_streaming, _http_response])
def test_the_usage_of_a_raw_response_that_the_program_parses_itself_is_recorded(read, recorded, client):
    assert read(client)
    gc.collect()
    record_abandoned()
    found = recorded.span("chat tiny").attributes
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (7, 3)
    tokens = {p.attributes["gen_ai.token.type"]: p.sum for p in recorded.metrics()["gen_ai.client.token.usage"]}
    assert tokens == {"input": 7, "output": 3}


def test_a_raw_body_that_is_large_is_not_parsed_by_us(recorded, client, monkeypatch):
    monkeypatch.setattr(calls, "LONGEST_BODY", 10)
    _text_of_raw(client)
    gc.collect()
    record_abandoned()
    assert "gen_ai.usage.input_tokens" not in recorded.span("chat tiny").attributes


def test_parsing_later_does_not_lengthen_the_call(recorded, server, client):
    raw = client.chat.completions.with_raw_response.create(**{**CHAT, "stream": False})
    returned = recorded.tracer_provider.get_tracer("program").start_span("after")
    first = raw.parse()
    assert raw.parse() is first
    assert recorded.span("chat tiny").end_time <= returned.start_time + 10**7
    returned.end()


def test_a_streamed_response_read_as_lines_is_complete(recorded, client):
    with client.chat.completions.with_streaming_response.create(**CHAT) as response:
        assert len(list(response.iter_lines())) > CHUNKS
    assert _end(recorded) == ("completed", StatusCode.UNSET)


def test_following_does_not_keep_a_response_alive(client):
    raw = client.chat.completions.with_raw_response.create(**{**CHAT, "stream": False})
    gone = weakref.ref(raw)
    gc.disable()
    try:
        del raw
        assert gone() is None
    finally:
        gc.enable()


def test_an_error_in_the_stream_is_an_error_span(recorded, client):
    with pytest.raises(openai.APIError, match="engine died"):
        list(client.chat.completions.create(**{**CHAT, "model": "breaking"}))
    span = recorded.span("chat breaking")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "openai.APIError"


@pytest.mark.bad_input("no usage")
def test_tokens_are_counted_from_token_ids_where_usage_is_missing(recorded, client):
    list(client.chat.completions.create(**CHAT, extra_body={"return_token_ids": True}))
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.usage.output_tokens"] == found["rl.inference.token_ids.count"] == 2 * CHUNKS
    assert "rl.inference.output_tokens.estimated" not in found
    (point,) = recorded.metrics()["gen_ai.client.token.usage"]
    assert point.sum == 2 * CHUNKS


def test_an_estimate_has_a_name_of_its_own_and_stays_off_the_metric(recorded, client):
    list(client.chat.completions.create(**CHAT))
    found = recorded.span("chat tiny").attributes
    assert found["rl.inference.output_tokens.estimated"] == CHUNKS
    assert "gen_ai.usage.output_tokens" not in found
    assert "gen_ai.client.token.usage" not in recorded.metrics()


async def test_an_async_stream_keeps_its_type_and_kind(recorded, async_client):
    stream = await async_client.chat.completions.create(**CHAT)
    assert type(stream) is openai.AsyncStream
    assert isinstance(stream._iterator, types.AsyncGeneratorType)
    assert len([chunk async for chunk in stream]) == CHUNKS + 2
    assert _end(recorded) == ("completed", StatusCode.UNSET)


async def test_an_async_stream_closed_early_is_no_error(recorded, async_client):
    async with await async_client.chat.completions.create(**CHAT) as stream:
        await stream.__anext__()
    assert _end(recorded) == ("closed", StatusCode.UNSET)


async def test_an_async_stream_dropped_after_some_chunks_is_abandoned(recorded, async_client):
    async for _ in await async_client.chat.completions.create(**CHAT):
        break
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    assert _end(recorded) == ("abandoned", StatusCode.UNSET)


async def test_streams_that_are_dropped_together_are_closed_once_each(async_client):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(str(context.get("exception"))))
    for _ in range(8):
        stream = await async_client.chat.completions.create(**CHAT)
        await anext(stream)
        stream.itself = stream
    del stream
    gc.collect()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    del others
    gc.collect()
    assert [one for one in told if "already running" in one] == []


async def test_a_cancelled_stream_says_so(recorded, async_client):
    started = asyncio.Event()

    async def read():
        async for _ in await async_client.chat.completions.create(**{**CHAT, "model": "stalling"}):
            started.set()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _end(recorded, "chat stalling") == ("cancelled", StatusCode.ERROR)


def test_the_programs_own_exception_closes_the_stream(recorded, client):
    class MineError(Exception):
        pass

    mine = MineError()

    def read():
        with client.chat.completions.create(**CHAT) as stream:
            next(stream)
            raise mine

    with pytest.raises(MineError) as raised:
        read()
    assert raised.value is mine
    assert _end(recorded) == ("closed", StatusCode.UNSET)


def test_a_helpers_stream_closed_early_ends_at_once(recorded, client):
    if not hasattr(client.chat.completions, "stream"):
        pytest.skip("this version has no such helper")
    messages = CHAT["messages"]
    with client.chat.completions.stream(model="tiny", messages=messages) as stream:
        next(iter(stream))
    assert recorded.span("chat tiny").attributes["rl.inference.stream.ended"] == "closed"
    assert stream is not None


async def test_an_async_helpers_stream_closed_early_ends_at_once(recorded, async_client):
    if not hasattr(async_client.chat.completions, "stream"):
        pytest.skip("this version has no such helper")
    async with async_client.chat.completions.stream(model="tiny", messages=CHAT["messages"]) as stream:
        await anext(stream)
    assert recorded.span("chat tiny").attributes["rl.inference.stream.ended"] == "closed"


def test_a_responses_stream_closed_early_ends_at_once(recorded, client):
    if not hasattr(getattr(client, "responses", None), "stream"):
        pytest.skip("this version has no such helper")
    with client.responses.stream(model="tiny", input="hi") as stream:
        next(iter(stream))
    assert recorded.span("chat tiny").attributes["rl.inference.stream.ended"] == "closed"
    assert stream is not None


class _TakenByAnotherThread(deque):
    def __bool__(self):
        return True


def test_another_thread_may_record_the_last_measurement_or_abandoned_call(recorded, client, monkeypatch):
    monkeypatch.setattr(dropped_answers, "dropped", _TakenByAnotherThread())
    monkeypatch.setattr(measurements.pending, "_queue", _TakenByAnotherThread())
    # An internal error would be raised here.
    record_abandoned()
    measurements.pending.record()
