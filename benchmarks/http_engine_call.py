"""CPU time that we add to requests over HTTP: to one for an engine, and to one that is none of our business.

    python benchmarks/http_engine_call.py [--rounds 40] [--calls 200] [--output FILE]

The transport of ``httpx`` answers at once, so what is left is the client's own work and what is added to it. Each round
runs the plain and the instrumented client one right after the other, the next round in reverse order. Spans go to the
SDK's batch processor and an exporter that drops them; a flush is part of every sample.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path

import httpx
from figures import bootstrap, finish, ratio_of_medians
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from otel_rl.inference import measurements
from otel_rl.instrumentors.httpx import HttpxInstrumentor

ANSWER = json.dumps(
    {
        "text": "hello",
        "output_ids": list(range(64)),
        "meta_info": {
            "id": "1",
            "finish_reason": {"type": "stop"},
            "prompt_tokens": 256,
            "completion_tokens": 64,
            "weight_version": "1",
        },
    }
).encode()
BODY = {"input_ids": list(range(256)), "sampling_params": {"max_new_tokens": 64, "temperature": 1.0}}
PATHS = {"engine": "/generate", "other": "/v2/items"}
#: A stream of chat, of which each chunk is an event, and the path that asks for it.
CHUNK = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
EVENTS = [b"data: %s\n\n" % json.dumps(CHUNK, separators=(",", ":")).encode()] * 256 + [b"data: [DONE]\n\n"]
STREAMS = {"chunk": "/v1/chat/completions", "other chunk": "/v2/items"}


class Dropped(SpanExporter):
    """Drops what it gets."""

    def export(self, spans):
        """Drop."""
        return SpanExportResult.SUCCESS


class Events(httpx.SyncByteStream):
    """A stream as it comes from a server that sends each event by itself."""

    def __iter__(self):
        """All chunks."""
        yield from EVENTS


def _answer(request):
    if request.url.path in STREAMS.values() and b'"stream"' in request.content:
        return httpx.Response(200, stream=Events(), headers={"content-type": "text/event-stream"})
    return httpx.Response(200, content=ANSWER, headers={"content-type": "application/json"})


def _sample(client, path, calls, provider):
    gc.collect()
    began = time.process_time_ns()
    for _ in range(calls):
        client.post(f"http://127.0.0.1:30000{path}", json=BODY).json()
    measurements.pending.record()
    provider.force_flush()
    return (time.process_time_ns() - began) / calls / 1000


def _stream_sample(client, path, calls, provider):
    """Microseconds of a chunk that the program reads line by line and parses, as clients of its own do."""
    gc.collect()
    began = time.process_time_ns()
    for _ in range(max(1, calls // 50)):
        with client.stream("POST", f"http://127.0.0.1:30000{path}", json={**BODY, "stream": True}) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    json.loads(line[6:])
    taken = time.process_time_ns() - began
    measurements.pending.record()
    provider.force_flush()
    return taken / max(1, calls // 50) / len(EVENTS) / 1000


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--output", type=Path, help="where the result is written")
    options = parser.parse_args()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropped()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider())
    instrumentor = HttpxInstrumentor()
    samples = {kind: {"plain": [], "instrumented": []} for kind in (*PATHS, *STREAMS)}
    with httpx.Client(transport=httpx.MockTransport(_answer)) as client:
        for number in range(options.rounds + 1):
            for kind, path in {**PATHS, **STREAMS}.items():
                sample = _stream_sample if kind in STREAMS else _sample
                for variant in ("plain", "instrumented") if number % 2 else ("instrumented", "plain"):
                    if variant == "instrumented":
                        instrumentor.instrument(skip_dep_check=True)
                    taken = sample(client, path, options.calls, provider)
                    if variant == "instrumented":
                        instrumentor.uninstrument()
                    if number:  # the first round fills the caches
                        samples[kind][variant].append(taken)
    figures = {}
    for kind, taken in samples.items():
        pairs = list(zip(taken["instrumented"], taken["plain"], strict=True))
        figures[f"{kind}: instrumented / plain"] = ratio_of_medians(pairs)
        figures[f"{kind}: us of CPU added to a {'chunk' if kind in STREAMS else 'request'}"] = bootstrap(
            pairs, lambda drawn: statistics.median(ours - plain for ours, plain in drawn)
        )
    return finish("http_engine_call", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    raise SystemExit(main())
