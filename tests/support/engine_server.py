"""A loopback server with the endpoints of SGLang 0.5.23, vLLM 0.32 and TRL's server: real sockets, fixed answers.

Stands for the engines, of which only vLLM runs on a CPU; the forms of the answers are copied from their sources.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

META_INFO: dict[str, Any] = {
    "id": "5e1f",
    "finish_reason": {"type": "stop", "matched": 2},
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "cached_tokens": 4,
    "reasoning_tokens": 1,
    "weight_version": "12",
    "e2e_latency": 0.5,
    "queue_time": 0.25,
    "first_token_latency": 0.375,
}
SGLANG = {"text": "hello", "output_ids": [1, 2, 3], "meta_info": META_INFO}
VLLM_GENERATE = {
    "request_id": "gen-1",
    "choices": [{"index": 0, "token_ids": [4, 5], "finish_reason": "length", "logprobs": None}],
}
TRL_GENERATE = {"prompt_ids": [[1, 2, 3], [1, 2]], "completion_ids": [[4], [5, 6], [7], [8]], "logprobs": []}
COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "model": "tiny-served",
    "choices": [{"index": 0, "text": "hello", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}


def _generate(body: dict[str, Any]) -> Any:
    if "prompts" in body:
        return TRL_GENERATE
    samples = (body.get("sampling_params") or {}).get("n", 1)
    return SGLANG if samples == 1 else [SGLANG] * samples


ANSWERS: dict[str, Any] = {
    "/generate": _generate,
    "/inference/v1/generate": lambda body: VLLM_GENERATE,
    "/v1/completions": lambda body: COMPLETION,
}


class Handler(BaseHTTPRequestHandler):
    """One request; a path that is no engine's own is answered with an empty object."""

    protocol_version = "HTTP/1.1"
    server: EngineServer

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        sent = self.rfile.read(length)
        try:
            body = json.loads(sent)
        except ValueError:
            body = {}
        self.server.requests.append((self.path, self.headers.items()))
        self.server.arrived.set()
        if self.path in self.server.redirects:
            self._answer(307, b"", location=self.server.redirects[self.path])
            return
        answer = ANSWERS.get(self.path.rstrip("/"), lambda body: {})
        self._answer(self.server.status, self.server.raw or json.dumps(answer(body)).encode())

    do_GET = do_POST  # noqa: N815 - the name that http.server looks for

    def _answer(self, status: int, content: bytes, location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content) + self.server.missing))
        if location is not None:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = bool(self.server.missing)
        self.server.hold.wait(10)

    def log_message(self, *_: Any) -> None:
        """Not on stderr."""


class EngineServer(ThreadingHTTPServer):
    """Running inside of `with`; ``requests`` has the path and the headers of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, list[tuple[str, str]]]] = []
        self.status = 200
        #: Content of every answer instead of the fixed ones.
        self.raw: bytes | None = None
        #: Path -> where a request for it is sent to.
        self.redirects: dict[str, str] = {}
        #: Bytes that an answer lacks when the connection is closed.
        self.missing = 0
        #: Answers end when it is set.
        self.hold = threading.Event()
        #: Set by each request.
        self.arrived = threading.Event()
        self.hold.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def headers(self, name: str) -> list[str]:
        """Values of a header in the last request, in order."""
        return [value for key, value in self.requests[-1][1] if key.lower() == name]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
