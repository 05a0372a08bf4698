"""Added CPU time of a call of `anthropic`: ours over the client's own span, against that span itself.

    ENVIRONMENT/bin/python benchmarks/anthropic_messages_call.py [--rounds 40] [--calls 64] [--output FILE]

ENVIRONMENT is that of `python tests/library_versions.py anthropic --only latest`. The transport answers at once, so
what is left is the client's own work and what is added to it: by its span (`native`), by that and ours (`both`). CPU
time of the whole process is taken. Each round runs the variants one right after the other, the next round in reverse
order; the figures are medians over rounds of paired differences, the bounds a bootstrap of them. The process runs under
`opentelemetry-instrument` with our distro and no endpoint, as users have it; all write into the file store, and every
sample ends with a flush of what its calls have left for later.

The cost of an event of a stream is the slope: a long stream less a short one, divided by the events between.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from figures import finish, ratio_of_medians, samples_of

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANTS = ("none", "native", "both")
#: The flag of the process that measures.
PROGRAM = "--program"
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


def _seconds(call: Callable[[], object], number: int) -> float:
    from opentelemetry import trace

    from otel_rl.inference import measurements

    started = time.process_time()
    for _ in range(number):
        call()
    measurements.pending.record()
    trace.get_tracer_provider().force_flush()
    return (time.process_time() - started) / number


def measure(rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """CPU seconds per call."""
    from otel_rl.instrumentors.anthropic import AnthropicInstrumentor

    shapes = {variant: _shapes(with_spans=variant != "none") for variant in VARIANTS}
    samples: dict[str, dict[str, list[float]]] = {
        shape: {variant: [] for variant in VARIANTS} for shape in shapes["none"]
    }
    for round_number in range(rounds):
        for shape, values in samples.items():
            gc.collect()
            for variant in VARIANTS if round_number % 2 else VARIANTS[::-1]:
                if variant == "both":
                    AnthropicInstrumentor().instrument(skip_dep_check=True)
                values[variant].append(_seconds(shapes[variant][shape], calls // PARTS.get(shape, 1)))
                if variant == "both":
                    AnthropicInstrumentor().uninstrument()
    return samples


def figures_of(samples: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Ours divided by the client's own, and both by themselves."""
    few, many = samples["stream"], samples["long_stream"]
    event = {
        variant: [(b - a) / (MANY - FEW) for a, b in zip(few[variant], many[variant], strict=True)]
        for variant in VARIANTS
    }
    found: dict[str, Any] = {}
    for shape, values in {"call": samples["call"], "event": event}.items():
        native = [b - a for a, b in zip(values["none"], values["native"], strict=True)]
        ours = [b - a for a, b in zip(values["native"], values["both"], strict=True)]
        figure: dict[str, Any] = ratio_of_medians(list(zip(ours, native, strict=True)))
        if shape in LIMITS:
            figure["limit"] = LIMITS[shape]
        found[f"{shape}, ours / native"] = figure
        for name, added in (("ours", ours), ("native", native)):
            found[f"{shape}, added by {name}, us"] = {"value": round(statistics.median(added) * 1e6, 2)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=64, help="calls of one sample; of streams there are fewer")
    parser.add_argument(PROGRAM, action="store_true", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.program:
        print(json.dumps(measure(options.rounds, options.calls)))
        return 0
    samples = samples_of(__file__, PROGRAM, "--rounds", str(options.rounds), "--calls", str(options.calls))
    return finish("anthropic_messages_call", figures_of(samples), samples, __doc__)


if __name__ == "__main__":
    sys.exit(main())
