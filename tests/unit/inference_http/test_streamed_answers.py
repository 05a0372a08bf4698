"""Streamed answers of engines over HTTP: what the program gets is what the server sent, and the call has its facts."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time

import pytest
from support.engine_server import CHAT_EVENTS, SGLANG_EVENTS
from unit.inference_http.http_streams import COMMON, WAYS, read_stream

from otel_rl import rollout
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.telemetry import progress

CHAT = "/v1/chat/completions"
BODY = {"model": "tiny", "messages": [], "stream": True}


def joined(pieces):
    """All bytes; ways that take lines lose their ends."""
    return "".join(piece.decode() if isinstance(piece, bytes) else piece for piece in pieces).replace("\n", "")


@pytest.mark.parametrize(("client", "way"), WAYS)
def test_a_stream_of_chat_has_usage_reason_times_and_the_time_to_its_first_chunk(client, way, server, instrumented):
    server.chunks, pieces = CHAT_EVENTS, []
    read_stream(client, way, f"{server.url}{CHAT}", BODY, lambda piece: pieces.append(piece) or True)

    assert joined(pieces) == joined(CHAT_EVENTS)
    found = instrumented.span("chat tiny").attributes
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.usage.output_tokens"] == 5
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.response.finish_reasons"] == ("length",)
    assert found["gen_ai.response.model"] == "tiny-served"
    assert found["rl.inference.engine"] == "vllm"
    assert found["rl.engine.queue_time"] == 0.25
    assert found["gen_ai.response.time_to_first_chunk"] > 0
    assert found["rl.inference.stream.ended"] == "completed"
    [first] = instrumented.metrics()["gen_ai.client.operation.time_to_first_chunk"]
    assert first.count == 1


@pytest.mark.parametrize(("client", "way"), WAYS)
def test_a_stream_of_sglang_says_it_all_again_and_counts_once(client, way, server, instrumented):
    server.chunks, pieces = SGLANG_EVENTS, []
    body = {"text": "hi", "stream": True}
    with rollout():
        read_stream(client, way, f"{server.url}/generate", body, lambda piece: pieces.append(piece) or True)

    assert joined(pieces) == joined(SGLANG_EVENTS)
    found = instrumented.span("text_completion").attributes
    assert found["gen_ai.usage.output_tokens"] == 3
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["rl.inference.weight_version"] == "12"
    assert found["rl.engine.queue_time"] == 0.25
    assert instrumented.span("rl.rollout").attributes["rl.rollout.output_tokens"] == 3


@pytest.mark.parametrize(("client", "way"), [one for one in COMMON if one[0] != "requests"] + [("requests", "raw")])
def test_chunks_reach_the_program_one_by_one_as_they_are_sent(client, way, server, instrumented):
    server.chunks, server.sends, pieces = CHAT_EVENTS, threading.Semaphore(1), []

    def take(piece):
        # The next one is sent only now: whoever read ahead would wait for ever.
        pieces.append(piece)
        if piece.strip():
            server.sends.release()
        return True

    read_stream(client, way, f"{server.url}{CHAT}", BODY, take)
    assert len([piece for piece in pieces if piece.strip()]) == len(CHAT_EVENTS)


class SendsWhenAwaited:
    """Sends each chunk but the first once the program waits for it."""

    def __init__(self, call):
        self.call, self.has_a_chunk, self.awaited, self.sent = call, threading.Event(), [], 0

    def acquire(self, timeout):
        self.sent += 1
        if self.sent != 2:
            return
        self.has_a_chunk.wait(timeout)
        deadline = time.monotonic() + timeout
        while self.call().state().is_held and time.monotonic() < deadline:
            threading.Event().wait(0.002)
        self.awaited.append(not self.call().state().is_held)


@pytest.mark.parametrize(("client", "way"), [one for one in COMMON if one[0] != "requests"] + [("requests", "raw")])
def test_a_stream_is_held_while_the_program_does_not_wait_for_its_next_chunk(client, way, server, instrumented):
    found, held = [], []

    def take(piece):
        held.append(found[0].state().is_held)
        server.sends.has_a_chunk.set()
        return len(held) < 3

    server.chunks, server.sends = CHAT_EVENTS[:4], SendsWhenAwaited(lambda: found[0])
    progress.watch_calls(found.append)
    try:
        read_stream(client, way, f"{server.url}{CHAT}", BODY, take)
    finally:
        progress.watch_calls(None)
    assert held == [True] * 3
    assert server.sends.awaited == [True]


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_call_ends_with_the_last_event_and_not_when_the_response_is_closed(client, way, server, instrumented):
    server.chunks, ended = CHAT_EVENTS, []

    def take(piece):
        if b"[DONE]" in (piece if isinstance(piece, bytes) else piece.encode()):
            ended.extend(instrumented.spans)
        return True

    read_stream(client, way, f"{server.url}{CHAT}", BODY, take)
    assert [span.name for span in ended] == ["chat tiny"]


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_stream_that_is_left_early_says_so_and_what_it_had_said(client, way, server, instrumented):
    server.chunks, server.sends = SGLANG_EVENTS, threading.Semaphore(2)
    seen = []

    def take(piece):
        seen.append(piece)
        return len([one for one in seen if one.strip()]) < 2

    read_stream(client, way, f"{server.url}/generate", {"text": "hi", "stream": True}, take)
    server.sends.release(10)
    found = instrumented.span("text_completion").attributes
    assert found["rl.inference.stream.ended"] == "closed"
    assert found["gen_ai.usage.output_tokens"] == 2
    assert "gen_ai.response.finish_reasons" not in found


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_stream_whose_connection_is_lost_is_a_failure_for_program_and_call(client, way, server, instrumented):
    server.chunks, server.missing = CHAT_EVENTS[:3], 1
    with pytest.raises(Exception, match=r".+") as raised:
        read_stream(client, way, f"{server.url}{CHAT}", BODY, lambda _: True)

    assert type(raised.value).__module__.partition(".")[0] == client.partition(".")[0]
    span = instrumented.span("chat tiny")
    assert not span.status.is_ok
    assert span.attributes["error.type"]
    assert "rl.inference.stream.ended" not in span.attributes


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_an_error_in_the_stream_fails_the_call(client, way, server, instrumented):
    server.chunks = [CHAT_EVENTS[0], b'data: {"error": {"message": "m", "type": "BadRequestError", "code": 400}}\n\n']
    read_stream(client, way, f"{server.url}{CHAT}", BODY, lambda _: True)

    assert instrumented.span("chat tiny").attributes["error.type"] == "BadRequestError"


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_refusal_of_a_stream_fails_with_its_status(client, way, server, instrumented):
    server.chunks, server.status = [b'{"error": "no"}'], 400
    read_stream(client, way, f"{server.url}{CHAT}", BODY, lambda _: True)

    assert instrumented.span("chat tiny").attributes["error.type"] == "400"


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_server_that_does_not_stream_is_understood_too(client, way, server, instrumented):
    """The whole answer at once, where a stream was asked for."""
    read_stream(client, way, f"{server.url}/generate", {"text": "hi", "stream": True}, lambda _: True)

    found = instrumented.span("text_completion").attributes
    assert found["gen_ai.usage.output_tokens"] == 3
    assert found["rl.inference.stream.ended"] == "completed"


@pytest.mark.parametrize("client", ["aiohttp", "httpx.async", "httpx2.async"])
def test_a_task_that_is_cancelled_while_it_reads_cancels_its_call(client, server, instrumented):
    library = pytest.importorskip(client.partition(".")[0])
    server.chunks, server.sends = CHAT_EVENTS, threading.Semaphore(1)

    async def read(began):
        if client == "aiohttp":
            async with library.ClientSession() as session, session.post(f"{server.url}{CHAT}", json=BODY) as response:
                async for _ in response.content.iter_any():
                    began.set()
        else:
            async with library.AsyncClient() as made, made.stream("POST", f"{server.url}{CHAT}", json=BODY) as response:
                async for _ in response.aiter_lines():
                    began.set()

    async def main():
        began = asyncio.Event()
        task = asyncio.create_task(read(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    server.sends.release(10)
    assert instrumented.span("chat tiny").attributes["rl.inference.stream.ended"] == "cancelled"


def test_a_stream_that_is_dropped_ends_its_call_with_what_it_had_said(server, instrumented):
    requests = pytest.importorskip("requests")
    server.chunks = SGLANG_EVENTS
    response = requests.post(f"{server.url}/generate", json={"text": "hi", "stream": True}, stream=True, timeout=60)
    next(response.iter_lines())
    del response
    gc.collect()
    record_abandoned()

    found = instrumented.span("text_completion").attributes
    assert found["rl.inference.stream.ended"] == "abandoned"
    assert found["gen_ai.usage.output_tokens"] == 1


def test_a_program_that_keeps_only_the_raw_response_of_requests_keeps_its_call(server, instrumented):
    requests = pytest.importorskip("requests")
    server.chunks = CHAT_EVENTS
    raw = requests.post(f"{server.url}{CHAT}", json=BODY, stream=True, timeout=60).raw
    gc.collect()
    record_abandoned()
    assert instrumented.spans == []

    assert b"".join(raw) == b"".join(CHAT_EVENTS)
    found = instrumented.span("chat tiny").attributes
    assert found["gen_ai.usage.output_tokens"] == 5
    assert found["rl.inference.stream.ended"] == "completed"


def test_a_raw_response_that_is_dropped_takes_no_other_for_itself(server, instrumented):
    """The identity of what is gone is that of something else soon."""
    requests = pytest.importorskip("requests")
    from otel_rl.inference.http import calls

    server.chunks = CHAT_EVENTS
    response = requests.post(f"{server.url}{CHAT}", json=BODY, stream=True, timeout=60)
    identity = id(response.raw)
    assert identity in calls._open
    response.raw = None
    gc.collect()

    assert identity not in calls._open


def test_a_response_of_requests_is_freed_without_the_garbage_collector(server, instrumented):
    requests = pytest.importorskip("requests")
    import weakref

    server.chunks = CHAT_EVENTS
    gc.collect()
    gc.disable()
    try:
        response = requests.post(f"{server.url}{CHAT}", json=BODY, stream=True, timeout=60)
        list(response.iter_lines())
        raw = weakref.ref(response.raw)
        del response
        assert raw() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_transport_that_answers_with_one_object_again_and_again_has_a_call_each_time(library, instrumented):
    module = pytest.importorskip(library)
    answer = json.dumps({"text": "a", "meta_info": {"id": "1", "completion_tokens": 4}}).encode()
    response = module.Response(200, content=answer)
    with module.Client(transport=module.MockTransport(lambda _: response)) as made:
        for _ in range(3):
            assert made.post("http://127.0.0.1/generate", json={"text": "hi"}).content == answer
        made.post("http://127.0.0.1/generate", json={"text": "hi"}).json()

    tokens = [span.attributes["gen_ai.usage.output_tokens"] for span in instrumented.spans]
    assert tokens == [4] * 4


def test_a_response_that_cannot_be_hashed_has_its_call(server, instrumented):
    aiohttp = pytest.importorskip("aiohttp")

    class Unhashable(aiohttp.ClientResponse):
        __hash__ = None

        def __eq__(self, other):
            return False

    async def main():
        async with aiohttp.ClientSession(response_class=Unhashable) as session:
            async with session.post(f"{server.url}/generate", json={"text": "hi"}) as response:
                return await response.json()

    asyncio.run(main())
    assert instrumented.span("text_completion").attributes["gen_ai.usage.output_tokens"] == 3


@pytest.mark.parametrize(("client", "way"), COMMON)
@pytest.mark.parametrize("path", [CHAT, "/generate"])
def test_a_stream_that_a_long_request_asked_for_has_tokens_too(client, way, path, server, instrumented, monkeypatch):
    """What the client was given as bytes is parsed up to a length."""
    from otel_rl.inference.http import calls

    monkeypatch.setattr(calls, "object_of", lambda _: {})
    server.chunks, pieces = CHAT_EVENTS if path == CHAT else SGLANG_EVENTS, []
    read_stream(client, way, f"{server.url}{path}", BODY, lambda piece: pieces.append(piece) or True)

    assert joined(pieces) == joined(server.chunks)
    [span] = instrumented.spans
    assert span.attributes["gen_ai.usage.output_tokens"] == (5 if path == CHAT else 3)
    assert span.attributes["gen_ai.response.finish_reasons"]
    assert span.attributes["rl.inference.stream.ended"] == "completed"
