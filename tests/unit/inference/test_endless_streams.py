"""Streams that never end, in the protocol of each client: what is kept of them is bounded."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_dashscope import answer, choice

from otel_rl.inference.converse_protocol import ConverseAnswer
from otel_rl.inference.gemini_protocol import GeminiAnswer
from otel_rl.inference.http.other_protocols import MessagesEvents, OllamaAnswer
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.instrumentors.dashscope.answers import DashScopeAnswer
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH

TEXT = "x" * 64


def of_messages(number: int) -> dict[str, Any]:
    if number % 2:
        return {
            "type": "content_block_start",
            "index": number,
            "content_block": {"type": "tool_use", "id": str(number)},
        }
    return {"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": TEXT}}


def of_ollama(number: int) -> bytes:
    calls = [{"id": str(number), "function": {"name": TEXT, "arguments": {}}}]
    return json.dumps({"message": {"content": TEXT, "tool_calls": calls}}).encode()


def of_gemini(number: int) -> SimpleNamespace:
    call = {"functionCall": {"id": str(number), "name": TEXT, "args": {}}}
    return SimpleNamespace(body=json.dumps({"candidates": [{"content": {"parts": [{"text": TEXT}, call]}}]}))


def of_bedrock(number: int) -> SimpleNamespace:
    payload = {"contentBlockIndex": number, "delta": {"text": TEXT}}
    kind = "contentBlockDelta"
    if number % 2:
        payload = {"contentBlockIndex": number, "start": {"toolUse": {"toolUseId": str(number), "name": TEXT}}}
        kind = "contentBlockStart"
    return SimpleNamespace(headers={":event-type": kind}, payload=json.dumps(payload).encode())


def of_dashscope(number: int) -> dict[str, Any]:
    call = {"index": number, "id": str(number), "function": {"name": TEXT, "arguments": "{}"}}
    return answer(choice(TEXT, "null", tool_calls=[call]))


#: Row -> the class that reads its streams, and the n-th piece of one.
STREAMS = {
    "anthropic": (MessagesAnswer, of_messages),
    "messages over HTTP": (MessagesEvents, lambda number: json.dumps(of_messages(number)).encode()),
    "ollama": (OllamaAnswer, of_ollama),
    "google_genai": (GeminiAnswer, of_gemini),
    "bedrock": (ConverseAnswer, of_bedrock),
    "dashscope": (partial(DashScopeAnswer, is_incremental=True), of_dashscope),
}


@pytest.mark.bad_input(
    "stream that never ends", of=("anthropic", "messages over HTTP", "ollama", "google_genai", "bedrock", "dashscope")
)
@pytest.mark.parametrize("row", STREAMS)
def test_a_stream_that_never_ends_keeps_a_bounded_amount(row):
    kind, piece = STREAMS[row]
    reader = kind(captures=True)

    def read(first: int, last: int) -> int:
        tracemalloc.start()
        for number in range(first, last):
            reader.observe_chunk(piece(number))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    read(0, 5_000)
    assert read(5_000, 10_000) < 100_000
    kept = reader.output_messages()
    assert kept is not None
    assert len(kept) <= MAXIMUM_LENGTH
