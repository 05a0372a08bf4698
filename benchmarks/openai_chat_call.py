"""Added CPU time of a chat call: ours against the official OpenAI instrumentor's, interleaved in one process.

    python benchmarks/openai_chat_call.py [--rounds 40] [--calls 64] [--output FILE]

The transport answers at once, so what is left is the client's own work and what is added to it. CPU time of the whole
process is taken (it includes the thread that exports). Each round runs every variant in turn, the next round in
reverse order; the figures are medians over rounds of paired differences, the bounds a bootstrap of them. Prints one
JSON object. CPU time is noisy where neighbours use the same caches; the count of executed bytecodes is not, and is
given beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.metadata
import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANTS = ("none", "otel_rl", "official")
#: The official one sends no trace context; with the instrumentor of the HTTP client it does, as ours always does.
#: Measured where opentelemetry-instrumentation-httpx is installed.
WITH_TRACE_CONTEXT = "official_and_http"
PACKAGES = ("openai", "opentelemetry-sdk", "opentelemetry-instrumentation-genai-openai", "otel-rl")
LIMITS = {"chat": 0.5}
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"model": "m", "messages": MESSAGES, "max_tokens": 8}
#: A turn of an agent in a rollout: history, tools, sampled tokens with their log-probabilities.
TURN = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You solve tasks with tools. " * 20},
        *(
            message
            for turn in range(3)
            for message in (
                {"role": "user", "content": "What is the result of step " + str(turn) + "? " * 100},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": f"call_{turn}",
                            "type": "function",
                            "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": f"call_{turn}", "content": "3"},
            )
        ),
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "One of the tools",
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            },
        }
        for name in ("add", "multiply", "search")
    ],
    "max_tokens": 256,
    "temperature": 1.0,
    "logprobs": True,
}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": "vllm-0.32.0",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}
TOKEN = {"token": "tok", "logprob": -0.1, "bytes": [1, 2, 3], "top_logprobs": []}
TURN_ANSWER = {
    **ANSWER,
    "choices": [{**ANSWER["choices"][0], "logprobs": {"content": [TOKEN] * 128, "refusal": None}}],
}
CHUNKS = 22


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    if finish_reason:
        body["usage"] = ANSWER["usage"]
    return f"data: {json.dumps(body)}\n\n"


STREAM = "".join(_chunk({"content": f"w{n} "}) for n in range(CHUNKS)) + _chunk({}, "stop") + "data: [DONE]\n\n"


def _set_up_telemetry() -> None:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Drop(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drop(), max_queue_size=100_000))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))


def _clients() -> tuple[Any, Any]:
    import openai

    major = int(openai.__version__.split(".")[0])
    http = __import__("httpx2" if major >= 3 else "httpx")

    plain, turn = json.dumps(ANSWER).encode(), json.dumps(TURN_ANSWER).encode()
    json_type = {"content-type": "application/json"}

    def answer(request: Any) -> Any:
        if b'"stream":true' in request.content.replace(b" ", b""):
            return http.Response(200, headers={"content-type": "text/event-stream"}, content=STREAM.encode())
        return http.Response(200, content=turn if b'"tools"' in request.content else plain, headers=json_type)

    async def answer_async(request: Any) -> Any:
        return answer(request)

    options = {"api_key": "none", "base_url": "http://127.0.0.1:9/v1"}
    return (
        openai.OpenAI(**options, http_client=http.Client(transport=http.MockTransport(answer))),
        openai.AsyncOpenAI(**options, http_client=http.AsyncClient(transport=http.MockTransport(answer_async))),
    )


def _shapes(client: Any, async_client: Any, calls: int) -> dict[str, Callable[[], float]]:
    """Shape -> function that runs it and returns CPU seconds per call."""
    loop = asyncio.new_event_loop()

    def chat() -> None:
        client.chat.completions.create(**CHAT)

    def agent_turn() -> None:
        client.chat.completions.create(**TURN)

    def stream() -> None:
        for _ in client.chat.completions.create(**CHAT, stream=True):
            pass

    def timed(function: Callable[[], None], number: int) -> float:
        start = time.process_time()
        for _ in range(number):
            function()
        return (time.process_time() - start) / number

    async def chats() -> float:
        start = time.process_time()
        for _ in range(calls):
            await async_client.chat.completions.create(**CHAT)
        return (time.process_time() - start) / calls

    return {
        "chat": lambda: timed(chat, calls),
        "agent_turn": lambda: timed(agent_turn, calls),
        "async_chat": lambda: loop.run_until_complete(chats()),
        "stream": lambda: timed(stream, calls),
    }


def _instrumentors(*clients: Any) -> dict[str, Any]:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as Official

    from otel_rl.instrumentors.openai import OpenAIInstrumentor as Ours

    found = {"none": None, "otel_rl": Ours(), "official": Official()}
    try:
        from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor as Http
    except ImportError:
        return found
    return {**found, WITH_TRACE_CONTEXT: _WithHttp(Official(), Http(), clients)}


class _WithHttp:
    """An instrumentor together with that of the HTTP clients below it, whose transport is no class it would patch."""

    def __init__(self, instrumentor: Any, http: Any, clients: tuple[Any, ...]) -> None:
        self._instrumentor = instrumentor
        self._http = http
        self._clients = [client._client for client in clients]

    def instrument(self) -> None:
        self._instrumentor.instrument()
        for client in self._clients:
            self._http.instrument_client(client)

    def uninstrument(self) -> None:
        for client in self._clients:
            self._http.uninstrument_client(client)
        self._instrumentor.uninstrument()


def measure(rounds: int = 40, calls: int = 64) -> dict[str, dict[str, list[float]]]:
    """CPU seconds per call: ``{shape: {variant: [one value per round]}}``."""
    _set_up_telemetry()
    clients = _clients()
    shapes = _shapes(*clients, calls)
    instrumentors = _instrumentors(clients[0])
    samples: dict[str, dict[str, list[float]]] = {shape: {v: [] for v in instrumentors} for shape in shapes}
    order = tuple(instrumentors)
    for round_number in range(rounds + 1):
        for variant in order if round_number % 2 else order[::-1]:
            instrumentor = instrumentors[variant]
            if instrumentor is not None:
                instrumentor.instrument()
            for shape, run in shapes.items():
                if variant == WITH_TRACE_CONTEXT and shape == "async_chat":
                    continue  # its uninstrumenting leaves something behind on an asynchronous client
                gc.collect()
                value = run()
                if round_number:  # the first round warms up
                    samples[shape][variant].append(value)
            if instrumentor is not None:
                instrumentor.uninstrument()
    return samples


def summarise(samples: dict[str, list[float]], draws: int = 2000) -> dict[str, Any]:
    """Added microseconds per call of each variant, and ours divided by the official one's with a 95 % interval."""
    base = samples["none"]
    added = {
        v: [value - b for value, b in zip(samples[v], base, strict=True)] for v in samples if v != "none" and samples[v]
    }
    pick = random.Random(0)  # noqa: S311 - a bootstrap, repeatable on purpose
    indexes = range(len(base))
    ratios = []
    for _ in range(draws):
        chosen = pick.choices(indexes, k=len(base))
        ours, official = (statistics.median([added[v][i] for i in chosen]) for v in VARIANTS[1:])
        ratios.append(ours / official)
    ratios.sort()
    middle = {v: statistics.median(values) for v, values in added.items()}
    with_trace_context = (
        {"ratio_to_official_and_http": round(middle["otel_rl"] / middle[WITH_TRACE_CONTEXT], 3)}
        if WITH_TRACE_CONTEXT in middle
        else {}
    )
    return {
        **with_trace_context,
        "base_us": round(statistics.median(base) * 1e6, 1),
        "added_us": {v: round(value * 1e6, 1) for v, value in middle.items()},
        "ratio": round(middle["otel_rl"] / middle["official"], 3),
        "ratio_95": [round(ratios[int(draws * q)], 3) for q in (0.025, 0.975)],
    }


def bytecodes(calls: int = 64) -> dict[str, float]:
    """Python instructions added per chat call, and ours divided by the official one's: the same on any busy machine."""
    client, _ = _clients()
    instrumentors = _instrumentors()
    counts = {}
    for variant in VARIANTS:
        if instrumentors[variant] is not None:
            instrumentors[variant].instrument()
        executed = 0

        def count(frame: Any, event: str, _: Any) -> Any:
            nonlocal executed
            frame.f_trace_opcodes = True
            executed += event == "opcode"
            return count

        for number in range(2 * calls):
            if number == calls:  # the first half warms up
                sys.settrace(count)
            client.chat.completions.create(**CHAT)
        sys.settrace(None)
        counts[variant] = executed / calls
        if instrumentors[variant] is not None:
            instrumentors[variant].uninstrument()
    added = {variant: round(counts[variant] - counts["none"]) for variant in VARIANTS[1:]}
    return {**added, "ratio": round(added["otel_rl"] / added["official"], 3)}


def _machine() -> dict[str, Any]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {"python": platform.python_version(), "cpus": os.cpu_count(), "arch": platform.machine(), **versions}


def _figure(shape: str, result: dict[str, Any]) -> dict[str, Any]:
    lower, upper = result["ratio_95"]
    figure = {"value": result["ratio"], "lower_95": lower, "upper_95": upper}
    if shape in LIMITS:
        figure |= {"limit": LIMITS[shape], "within_limit": result["ratio"] <= LIMITS[shape]}
    return figure


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=64)
    parser.add_argument("--output", type=Path, help="also write the JSON, with every sample, to this file")
    options = parser.parse_args(argv)
    samples = measure(options.rounds, options.calls)
    results = {shape: summarise(values) for shape, values in samples.items()}
    report = {
        "benchmark": "openai_chat_call",
        "figures": {f"{shape}, ours / official": _figure(shape, result) for shape, result in results.items()},
        "results": results,
        "bytecodes": {"chat": bytecodes()},
        "rounds": options.rounds,
        "calls": options.calls,
        "machine": _machine(),
    }
    print(json.dumps(report, indent=2))
    if options.output:
        options.output.write_text(json.dumps({**report, "samples": samples}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
