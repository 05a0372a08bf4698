"""Added CPU time of a call of `anthropic`: ours over the client's own span, against that span itself.

    ENVIRONMENT/bin/python benchmarks/anthropic_messages_call.py [--rounds 40] [--calls 64] [--output FILE]

ENVIRONMENT is that of `python tests/library_versions.py anthropic --only latest`. The transport answers at once, so
what is left is the client's own work and what is added to it. `owned_calls` says how it is measured.

The cost of an event of a stream is the slope: a long stream less a short one, divided by the events between.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import owned_calls

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = {"model": "claude", "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": USAGE,
}
#: Pieces of text in a short and in a long stream.
FEW, MANY = 16, 272
#: By how much fewer streams than `--calls` are in one sample.
PARTS = {"stream": 4, "long_stream": 16}
LIMITS = {"call": 0.5}


def _stream(pieces: int) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "tok "}}] * pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": pieces}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def _shapes(*, with_spans: bool) -> dict[str, Callable[[], object]]:
    import anthropic
    import httpx2

    answers = {4: json.dumps(MESSAGE).encode(), FEW: _stream(FEW), MANY: _stream(MANY)}

    def answer(request: Any) -> Any:
        asked = json.loads(request.content)
        kind = "text/event-stream" if asked.get("stream") else "application/json"
        return httpx2.Response(200, content=answers[asked["max_tokens"]], headers={"content-type": kind})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="none", http_client=http, open_telemetry=None if with_spans else False)
    create = client.messages.create
    return {
        "call": lambda: create(**CALL, max_tokens=4),
        "stream": lambda: list(create(**CALL, max_tokens=FEW, stream=True)),
        "long_stream": lambda: list(create(**CALL, max_tokens=MANY, stream=True)),
    }


def _setup() -> tuple[dict[str, Any], dict[str, Any]]:
    from otel_rl.instrumentors.anthropic import AnthropicInstrumentor

    shapes = {variant: _shapes(with_spans=variant != "none") for variant in owned_calls.VARIANTS}
    return shapes, {"both": [AnthropicInstrumentor()]}


def figures_of(samples: owned_calls.Samples) -> dict[str, Any]:
    """Ours divided by the client's own, and both by themselves."""
    few, many = samples["stream"], samples["long_stream"]
    event = {
        variant: [(b - a) / (MANY - FEW) for a, b in zip(few[variant], many[variant], strict=True)] for variant in few
    }
    return owned_calls.added_over_owner({"call": samples["call"], "event": event}, "native", LIMITS)


if __name__ == "__main__":
    sys.exit(owned_calls.main(__file__, __doc__, _setup, figures_of, PARTS))
