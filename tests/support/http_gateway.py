"""A gateway: `python http_gateway.py TARGET [--instrumented]` hands each request on to TARGET, and streams the answer.

An ASGI application under uvicorn, on a free port, which it prints. It hands on all headers but those of its own hop, as
gateways in front of engines do.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Of one connection only (RFC 9110), or made anew for the next.
_OWN = {b"connection", b"content-length", b"host", b"keep-alive", b"transfer-encoding"}


@contextmanager
def http_gateway(target: str, *options: str) -> Iterator[str]:
    """A gateway in a process of its own; gives its URL."""
    command = [sys.executable, str(Path(__file__)), target, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()
            process.wait(10)


def _application(target: str) -> Any:
    import httpx

    client = httpx.AsyncClient(timeout=20)

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [(name, value) for name, value in scope["headers"] if name not in _OWN]
        url = f"{target}{scope['raw_path'].decode()}"
        async with client.stream(scope["method"], url, content=body, headers=headers) as answer:
            kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in _OWN]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return application


def main(target: str, *options: str) -> None:
    import socket

    import uvicorn

    if "--instrumented" in options:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        from otel_rl.instrumentors.httpx import HttpxInstrumentor

        trace.set_tracer_provider(TracerProvider())
        HttpxInstrumentor().instrument(skip_dep_check=True)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(_application(target), lifespan="off", log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
