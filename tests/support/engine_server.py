"""A loopback server with the endpoints of SGLang 0.5.23, vLLM 0.32 and TRL's server: real sockets, fixed answers.

Stands for the engines; the forms of the answers are copied from their sources. Real ones: tests/engines.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _chat_chunk(choices: list[dict[str, Any]], **added: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "tiny-served", "choices": choices, **added}


def _delta(reason: str | None = None, **delta: str) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]


#: vLLM's, with the usage in an event of its own, and its times with ``--enable-per-request-metrics``.
CHAT_EVENTS = [
    _event(_chat_chunk(_delta(role="assistant", content=""), system_fingerprint="vllm-0.32.0")),
    *(_event(_chat_chunk(_delta(content=f'piece {number} \\"finish_reason\\":"x'))) for number in range(4)),
    _event(_chat_chunk(_delta("length", content="end"))),
    _event(
        _chat_chunk(
            [],
            usage={"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
            metrics={"time_to_first_token_ms": 375.0, "queue_time_ms": 250.0, "generation_time_ms": 125.0},
        )
    ),
    b"data: [DONE]\n\n",
]


def _state(tokens: int, reason: dict[str, Any] | None) -> bytes:
    text = {"text": "hello " * tokens, "output_ids": list(range(tokens))}
    meta = {**META_INFO, "completion_tokens": tokens, "finish_reason": reason}
    return _event({**text, "meta_info": meta if reason else {key: meta[key] for key in _WHILE_IT_RUNS}})


_WHILE_IT_RUNS = ("id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "weight_version")
#: SGLang's own: each event has all text and tokens so far.
SGLANG_EVENTS = [*(_state(tokens, None) for tokens in (1, 2)), _state(3, {"type": "stop", "matched": 2})]
SGLANG_EVENTS.append(b"data: [DONE]\n\n")


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
        if self.server.chunks is not None and body.get("stream"):
            self._stream(self.server.chunks)
            return
        if self.server.failures > 0:
            self.server.failures -= 1
            self._answer(503, b'{"error": {"message": "overloaded"}}')
            return
        answer = {**ANSWERS, **self.server.answers}.get(self.path.rstrip("/"), lambda body: {})
        self._answer(self.server.status, self.server.raw or json.dumps(answer(body)).encode())

    do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815 - the names that http.server looks for

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

    def _stream(self, chunks: list[bytes]) -> None:
        self.send_response(self.server.status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for chunk in chunks:
                self.server.sends.acquire(timeout=10)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if not self.server.missing:
                self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.server.left.set()
        self.close_connection = bool(self.server.missing)

    def log_message(self, *_: Any) -> None:
        """Not on stderr."""


class EngineServer(ThreadingHTTPServer):
    """Running inside of `with`; ``requests`` has the path and the headers of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, list[tuple[str, str]]]] = []
        self.status = 200
        #: So many next requests get a 503.
        self.failures = 0
        #: Path -> what is answered there in place of the fixed answer, made of the body of the request.
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        #: Content of every answer instead of the fixed ones.
        self.raw: bytes | None = None
        #: Chunks of the answer to a request for a stream; each is sent when ``sends`` lets it.
        self.chunks: list[bytes] | None = None
        self.sends = threading.Semaphore(10**6)
        #: The client has closed the connection of a stream.
        self.left = threading.Event()
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
