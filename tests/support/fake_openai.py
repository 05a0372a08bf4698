"""A loopback HTTP server that speaks the protocol of OpenAI: real sockets, answers fixed by the request."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self

USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny-served",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"x": 1}'}, "finish_reason": "stop"}],
    "usage": USAGE,
}
#: What vLLM adds with `--enable-per-request-metrics` and `return_token_ids`.
VLLM: dict[str, Any] = {
    "system_fingerprint": "vllm-0.32.0-c86cfaaa",
    "metrics": {"time_to_first_token_ms": 12.5, "generation_time_ms": 250.0, "queue_time_ms": 2.0},
    "prompt_token_ids": [1, 2, 3],
}
COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "tiny-served",
    "choices": [{"index": 0, "text": "hello", "finish_reason": "length", "token_ids": [1, 2]}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}
EMBEDDING = {
    "object": "list",
    "model": "tiny-embedding",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}],
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "tiny-served",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
RESPONSE_EVENTS: list[dict[str, Any]] = [
    {
        "type": "response.created",
        "sequence_number": 0,
        "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None},
    },
    {
        "type": "response.output_item.added",
        "sequence_number": 1,
        "output_index": 0,
        "item": {**RESPONSE["output"][0], "content": [], "status": "in_progress"},
    },
    {
        "type": "response.content_part.added",
        "sequence_number": 2,
        "output_index": 0,
        "content_index": 0,
        "item_id": "msg_1",
        "part": {"type": "output_text", "text": "", "annotations": []},
    },
    {
        "type": "response.output_text.delta",
        "sequence_number": 3,
        "output_index": 0,
        "content_index": 0,
        "item_id": "msg_1",
        "delta": "hi",
        "logprobs": [],
    },
    {"type": "response.completed", "sequence_number": 4, "response": RESPONSE},
]
CHUNKS = 5


def chat_chunks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a streamed chat; ``token_ids`` and ``usage`` where the request asks for them."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-served"}
    ids = {"token_ids": [5, 6]} if body.get("return_token_ids") else {}
    chunks = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    chunks += [
        {"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None, **ids} for number in range(CHUNKS)
    ]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    found = [{**head, "choices": [choice]} for choice in chunks]
    if (body.get("stream_options") or {}).get("include_usage"):
        found.append({**head, "choices": [], "usage": USAGE})
    return found


#: Model -> JSON that is no object, which it is answered with.
NO_OBJECTS: dict[str, Any] = {"null": None, "list": [1, 2, 3]}


class Handler(BaseHTTPRequestHandler):
    """One request; its behaviour is chosen by the model's name."""

    protocol_version = "HTTP/1.1"
    server: FakeOpenAI
    answers: ClassVar[dict[str, dict[str, Any]]] = {
        "/v1/chat/completions": CHAT,
        "/v1/completions": COMPLETION,
        "/v1/embeddings": EMBEDDING,
        "/v1/responses": RESPONSE,
    }

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        self.server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        self.server.header_lines.append([(key.lower(), value) for key, value in self.headers.items()])
        model = body.get("model")
        if self.server.failures > 0:
            self.server.failures -= 1
            self._answer(503, {"error": {"message": "overloaded"}}, {"retry-after-ms": "1"})
        elif model == "refusing" or (model == "refusing_once" and self.server.is_first_of(body.get("user"))):
            self._answer(500, {"error": {"message": "broken"}}, {"retry-after-ms": "1"})
        elif model == "missing":
            self._answer(404, {"error": {"message": "no such model", "code": 404}})
        elif model == "slow":
            self.server.slow_request_seen.set()
            self.server.release.wait(10)
            self._answer(200, CHAT)
        elif model == "aborting":
            self._answer(200, {**CHAT, "choices": [{**CHAT["choices"][0], "finish_reason": "abort"}]})
        elif model in NO_OBJECTS:
            self._answer(200, NO_OBJECTS[model])
        elif body.get("stream"):
            self._stream(body)
        else:
            # What the request says of itself comes back, as OpenAI does it.
            own = {"metadata": body["metadata"]} if "metadata" in body else {}
            self._answer(200, self.server.body or {**self.answers[self.path], **own, **self.server.extra})

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        if self.server.compresses:
            data, headers = gzip.compress(data, mtime=0), {"content-encoding": "gzip"}
        self.send_response(status)
        for key, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        if self.server.compresses:
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        self.close_connection = True
        compressor = zlib.compressobj(wbits=31) if self.server.compresses else None
        named = self.path.endswith("/responses")

        def send(data: bytes) -> None:
            if compressor is not None:
                data = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
            self.wfile.write(data)
            self.wfile.flush()

        try:
            for number, chunk in enumerate(self._chunks(body)):
                if body.get("model") == "stalling" and number == 2:
                    self.server.release.wait(10)
                if body.get("model") == "breaking" and number == 2:
                    chunk = {"error": {"message": "engine died"}}  # noqa: PLW2901
                data = chunk if isinstance(chunk, str) else json.dumps(chunk)
                send(((f"event: {chunk['type']}\n" if named else "") + f"data: {data}\n\n").encode())
            if not named:
                send(b"data: [DONE]\n\n")
            if compressor is not None:
                self.wfile.write(compressor.flush())
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _chunks(self, body: dict[str, Any]) -> list[Any]:
        if self.server.chunks is not None:
            return self.server.chunks
        if self.path == "/v1/completions":
            return [{**COMPLETION, "choices": [{**COMPLETION["choices"][0], "finish_reason": None}]}, COMPLETION]
        return RESPONSE_EVENTS if self.path.endswith("/responses") else chat_chunks(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""


class FakeOpenAI(ThreadingHTTPServer):
    """The server; ``with FakeOpenAI() as server`` runs it on a free loopback port."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        #: (path, headers, body) of every request.
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        #: The headers of every request with those that came twice.
        self.header_lines: list[list[tuple[str, str]]] = []
        #: That many next requests get a 503.
        self.failures = 0
        #: Merged into every answer.
        self.extra: dict[str, Any] = {}
        #: Every answer is compressed, whether the client accepts it or not.
        self.compresses = False
        #: In place of every answer.
        self.body: dict[str, Any] | None = None
        #: What a stream sends in place of the usual chunks; a text is sent as it is.
        self.chunks: list[Any] | None = None
        #: Ends what is waiting for the models "slow" and "stalling".
        self.release = threading.Event()
        self.slow_request_seen = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def is_first_of(self, user: str | None) -> bool:
        """Whether the newest request of ``user`` is the only one so far."""
        return sum(body.get("user") == user for _, _, body in self.requests) == 1

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.shutdown()
        self._thread.join(5)
        self.server_close()

    def wait_for_slow_request(self) -> None:
        assert self.slow_request_seen.wait(10), "the request never arrived"
