"""A loopback HTTP server that speaks the protocol of Model Studio: real sockets, answers that a test has queued."""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

USAGE = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, "prompt_tokens_details": {"cached_tokens": 4}}


def choice(content: Any, reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {"finish_reason": reason, "message": {"role": "assistant", "content": content, **message}}


def answer(*choices: dict[str, Any], usage: Any = USAGE, **output: Any) -> dict[str, Any]:
    return {"request_id": "request-1", "output": {**output, "choices": list(choices)}, "usage": usage}


#: A stream of three chunks, each with the usage so far; the reason is "null" until the last.
PIECES = [
    answer(choice("Hel", "null"), usage={"input_tokens": 11, "output_tokens": 1}),
    answer(choice("lo ", "null"), usage={"input_tokens": 11, "output_tokens": 4}),
    answer(choice("you"), usage={"input_tokens": 11, "output_tokens": 7}),
]
WHOLE = [
    answer(choice("Hel", "null"), usage={"input_tokens": 11, "output_tokens": 1}),
    answer(choice("Hello ", "null"), usage={"input_tokens": 11, "output_tokens": 4}),
    answer(choice("Hello you"), usage={"input_tokens": 11, "output_tokens": 7}),
]


#: An answer that comes when the server is released.
HANG: dict[str, Any] = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeDashScope

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        self.server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        status, given = self.server.answers.popleft()
        if given is HANG:
            self.server.asked.set()
            self.server.release.wait(20)
        if isinstance(given, list):
            lines = "".join(
                f"id:{number}\nevent:result\n:HTTP_STATUS/200\ndata:{json.dumps(chunk)}\n\n"
                for number, chunk in enumerate(given)
            )
            self._send(status, "text/event-stream", lines.encode())
        elif isinstance(given, bytes):
            self._send(status, "text/html", given)
        else:
            self._send(status, "application/json", json.dumps(given).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


class FakeDashScope(ThreadingHTTPServer):
    """``with FakeDashScope() as server``: ``answers`` holds pairs of status and answer, a list for a stream."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: deque[tuple[int, Any]] = deque()
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.asked, self.release = threading.Event(), threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.shutdown()
        self.server_close()
