"""Posts to an engine with every HTTP client beside the official instrumentors of these clients, in a rollout.

    python http_program.py before | after

Ours are active before or after theirs. Prints one JSON object: client -> headers of the request, and its spans.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.engine_server import EngineServer
from support.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from collections.abc import Callable

THEIRS = (
    "opentelemetry.instrumentation.httpx:HTTPXClientInstrumentor",
    "opentelemetry.instrumentation.httpx:HTTPX2ClientInstrumentor",
    "opentelemetry.instrumentation.requests:RequestsInstrumentor",
    "opentelemetry.instrumentation.aiohttp_client:AioHttpClientInstrumentor",
    "opentelemetry.instrumentation.urllib3:URLLib3Instrumentor",
)
OURS = ("aiohttp", "httpx", "httpx2", "openai", "requests", "urllib3")
BODY = {"text": "hi", "prompt": "hi"}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def _instrument_ours() -> None:
    for one in entry_points(group="opentelemetry_instrumentor"):
        if one.name in {f"otel_rl_{library}" for library in OURS}:
            one.load()().instrument(skip_dep_check=True)


def _instrument_theirs() -> None:
    for name in THEIRS:
        module, _, kind = name.partition(":")
        getattr(import_module(module), kind)().instrument(skip_dep_check=True)


def _httpx(library: str, url: str) -> None:
    with import_module(library).Client() as client:
        client.post(url, json=BODY).json()


def _httpx_async(library: str, url: str) -> None:
    async def main() -> None:
        async with import_module(library).AsyncClient() as client:
            (await client.post(url, json=BODY)).json()

    asyncio.run(main())


def _requests(library: str, url: str) -> None:
    import_module(library).post(url, json=BODY, timeout=20).json()


def _urllib3(library: str, url: str) -> None:
    with import_module(library).PoolManager() as manager:
        manager.request("POST", url, json=BODY).json()


def _aiohttp(library: str, url: str) -> None:
    async def main() -> None:
        async with import_module(library).ClientSession() as session, session.post(url, json=BODY) as response:
            await response.json()

    asyncio.run(main())


CLIENTS: dict[str, tuple[Callable[[str, str], None], str]] = {
    "httpx": (_httpx, "httpx"),
    "httpx, asynchronous": (_httpx_async, "httpx"),
    "httpx2": (_httpx, "httpx2"),
    "httpx2, asynchronous": (_httpx_async, "httpx2"),
    "requests": (_requests, "requests"),
    "urllib3": (_urllib3, "urllib3"),
    "aiohttp": (_aiohttp, "aiohttp"),
}


def _described(spans: InMemorySpanExporter) -> list[dict[str, Any]]:
    found = [
        {
            "scope": span.instrumentation_scope.name,
            "name": span.name,
            "id": f"{span.context.span_id:016x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
        }
        for span in spans.get_finished_spans()
    ]
    spans.clear()
    return found


def _openai(server: FakeOpenAI, **given: Any) -> None:
    import openai

    openai.OpenAI(api_key="none", base_url=server.base_url, **given).chat.completions.create(**CHAT)


def _openai_async(server: FakeOpenAI, *, aiohttp: bool) -> None:
    import openai

    async def main() -> None:
        transport = {"http_client": openai.DefaultAioHttpClient()} if aiohttp else {}
        async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url, **transport) as client:
            await client.chat.completions.create(**CHAT)

    asyncio.run(main())


MODEL_CLIENTS: dict[str, Callable[[FakeOpenAI], None]] = {
    "openai": _openai,
    "openai, asynchronous": lambda server: _openai_async(server, aiohttp=False),
    "openai, over aiohttp": lambda server: _openai_async(server, aiohttp=True),
}


def main(order: str) -> int:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    steps = (_instrument_ours, _instrument_theirs)
    for step in steps if order == "before" else reversed(steps):
        step()
    from otel_rl import rollout

    found: dict[str, Any] = {}
    with EngineServer() as server, FakeOpenAI() as fake:
        for name, (call, library) in CLIENTS.items():
            with rollout(rollout_id="r1", sample_id="s1"):
                call(library, f"{server.url}/generate")
            lines = [(key.lower(), value) for key, value in server.requests[-1][1]]
            found[name] = {"headers": lines, "spans": _described(spans)}
        for name, ask in MODEL_CLIENTS.items():
            with rollout(rollout_id="r1", sample_id="s1"):
                ask(fake)
            found[name] = {"headers": fake.header_lines[-1], "spans": _described(spans)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
