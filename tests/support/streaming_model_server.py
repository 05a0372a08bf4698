"""A model server on this machine that streams one short answer to everything it is asked, for programs under test."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = {
    "id": "1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "tiny",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
}
_ANSWER = f"data: {json.dumps(_CHUNK)}\n\ndata: [DONE]\n\n".encode()
#: A first chunk takes between these parts of the seconds that are asked for.
_SPREAD = 0.8, 1.2


@contextlib.contextmanager
def streaming_model_server(first_chunk: Callable[[], float], refusal: Callable[[], int | None]) -> Iterator[str]:
    """A server until the block ends; gives the base URL of its API.

    ``first_chunk`` says how long the first chunk takes, in s. ``refusal`` is asked about each call that is not sent
    again, and says the status with which it is refused, or None.
    """
    chance = random.Random(0)  # noqa: S311 - no secret

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            is_retry = self.headers.get("x-stainless-retry-count", "0") != "0"
            status = None if is_retry else refusal()
            if status is not None:
                self._answer(status, "application/json", b'{"error": {"message": "refused"}}')
                return
            time.sleep(first_chunk() * chance.uniform(*_SPREAD))
            self._answer(200, "text/event-stream", _ANSWER)

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(body)

        def handle(self) -> None:
            # A client that is done may reset its connection.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
