"""A loopback server of the protocols that are not OpenAI's: real sockets, answers fixed by the model's name."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-served",
    "content": [{"type": "text", "text": "planted answer"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 11,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 2,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    },
}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
ASKING = {**MESSAGE, "content": [TOOL_USE], "stop_reason": "tool_use"}
OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7, "total_duration": 5}
BEDROCK_USAGE = {
    "inputTokens": 11,
    "outputTokens": 7,
    "totalTokens": 24,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 2,
}
GEMINI = {"modelVersion": "gemini-served", "responseId": "resp-1"}
GEMINI_USAGE = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 18,
}
#: What a gateway answers at a path of its own, in OpenAI's form.
CHAT = {
    "id": "chat-1",
    "model": "own-served",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 7},
}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "planted overload"}}


def _asked(names: Iterable[str]) -> list[dict[str, Any]]:
    """A call of each of these tools at once."""
    return [{**TOOL_USE, "id": f"toolu_{number}", "name": name} for number, name in enumerate(names, 1)]


def message_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed message; the first has a placeholder for the output tokens."""
    usage = {**message["usage"], "output_tokens": 1, "output_tokens_details": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "ping"},
    ]
    for index, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        begun = {"type": "text", "text": ""} if is_text else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        pieces = block["text"].split(" ") if is_text else [json.dumps(block["input"])]
        for number, piece in enumerate(pieces):
            text = piece if number == 0 else f" {piece}"
            delta = (
                {"type": "text_delta", "text": text} if is_text else {"type": "input_json_delta", "partial_json": piece}
            )
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    counts = {"output_tokens": message["usage"]["output_tokens"], "output_tokens_details": {"thinking_tokens": 3}}
    # Cumulative: the server may send it more than once.
    events += [
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 5}},
        {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"]}, "usage": counts},
        {"type": "message_stop"},
    ]
    return events


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: FakeModels

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        self.server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        model = str(body.get("model") or "") or self.path.rpartition("/")[2].partition(":")[0]
        if self.server.failures > 0:
            self.server.failures -= 1
            self._answer(529, ERROR, {"retry-after-ms": "1"})
        elif model == "missing":
            self._answer(404, {"type": "error", "error": {"type": "not_found_error", "message": "planted"}})
        elif model == "error_with_200":
            self._answer(200, ERROR)
        elif model == "no_json":
            self._answer(200, b"planted <html>")
        elif model == "no_usage":
            self._answer(200, {key: value for key, value in MESSAGE.items() if key != "usage"})
        elif model == "slow":
            self.server.slow_request_seen.set()
            self.server.release.wait(10)
            self._answer(200, MESSAGE)
        else:
            self._answer_of_protocol(model, body)

    def _answer_of_protocol(self, model: str, body: dict[str, Any]) -> None:
        if self.path.startswith("/api/"):
            self._ollama(body)
        elif self.path.startswith("/model/"):
            self._bedrock(unquote(self.path.split("/")[2]), body)
        elif "Content" in self.path:
            self._gemini(model, body)
        elif self.path.endswith("/complete"):
            self._answer(200, CHAT)
        elif self.path.endswith("/count_tokens"):
            self._answer(200, {"input_tokens": 11})
        else:
            self._message(body)

    def _message(self, body: dict[str, Any]) -> None:
        messages = body.get("messages") or [{}]
        asks = bool(body.get("tools")) and isinstance(messages[-1].get("content"), str)
        message = {**ASKING, "content": _asked(tool["name"] for tool in body["tools"])} if asks else MESSAGE
        if not body.get("stream"):
            self._answer(200, message)
            return
        events: list[Any] = message_events(message)
        if body.get("model") == "breaking":
            events[4:] = [ERROR]
        elif body.get("model") == "cut_short":
            events[5:] = []
        elif body.get("model") == "chunk_no_json":
            events.insert(4, "planted")
        self._stream([_event(event) for event in events], "text/event-stream", stall=body.get("model") == "stalling")

    def _ollama(self, body: dict[str, Any]) -> None:
        is_chat = self.path == "/api/chat"
        head = {"model": "llama-served", "created_at": "2026-01-01T00:00:00Z"}
        pieces = [
            {"message": {"role": "assistant", "content": text}} if is_chat else {"response": text} for text in "ab"
        ]
        if body.get("tools") and body["messages"][-1]["role"] == "user":
            calls = [{"function": {"name": tool["function"]["name"], "arguments": {"a": 1}}} for tool in body["tools"]]
            pieces = [{"message": {"role": "assistant", "content": "", "tool_calls": calls}}]
        if body.get("stream", True):
            last = {**pieces[-1], **OLLAMA_END}
            lines = [*({**head, **piece, "done": False} for piece in pieces), {**head, **last}]
            if body.get("model") == "breaking":
                lines[1:] = [{"error": "planted"}]
            data = [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines]
            if body.get("model") == "chunk_no_json":
                data.insert(1, b"planted\n")
            self._stream(data, "application/x-ndjson", stall=body.get("model") == "stalling")
        else:
            self._answer(200, {**head, **pieces[0], **OLLAMA_END})

    def _gemini(self, model: str, body: dict[str, Any]) -> None:
        last = body["contents"][-1]["parts"][0] if "contents" in body else {}
        asks = bool(body.get("tools")) and "functionResponse" not in last
        parts = [{"text": text} for text in ("planted", " answer")]
        if asks:
            declared = body["tools"][0]["functionDeclarations"]
            parts = [{"functionCall": {"name": tool["name"], "args": {"a": 1}}} for tool in declared]
        if "embed" in self.path or "batchEmbed" in self.path:
            self._answer(200, {"embeddings": [{"values": [0.5]}]})
        elif "stream" not in self.path:
            usage = {} if model == "without_usage" else {"usageMetadata": GEMINI_USAGE}
            candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
            self._answer(200, {**GEMINI, **usage, "candidates": [candidate]})
        else:
            chunks: list[Any] = [
                {
                    **GEMINI,
                    "candidates": [{"content": {"parts": [part]}}],
                    "usageMetadata": {**GEMINI_USAGE, "candidatesTokenCount": 1},
                }
                for part in parts
            ]
            chunks.append({**GEMINI, "candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})
            chunks.append({**GEMINI, "usageMetadata": GEMINI_USAGE})
            if model == "breaking":
                chunks[1:] = [{"error": {"code": 503, "message": "planted", "status": "UNAVAILABLE"}}]
            data = [b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks]
            if model == "chunk_no_json":
                data.insert(1, b"data: planted\r\n\r\n")
            self._stream(data, "text/event-stream", stall=model == "stalling")

    def _bedrock(self, model: str, body: dict[str, Any]) -> None:
        asks = "toolConfig" in body and not any("toolResult" in block for block in body["messages"][-1]["content"])
        names = [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] if asks else []
        calls = [{"toolUseId": f"tooluse_{number}", "name": name} for number, name in enumerate(names, 1)]
        blocks = [{"toolUse": {**call, "input": {"a": 1}}} for call in calls] or [{"text": "planted answer"}]
        reason = "tool_use" if asks else "end_turn"
        if model == "refused":
            self._answer(400, {"message": "planted"}, {"x-amzn-errortype": "ValidationException"})
        elif self.path.endswith("/invoke"):
            counts = {"x-amzn-bedrock-input-token-count": "11", "x-amzn-bedrock-output-token-count": "7"}
            self._answer(200, {"completion": "planted"}, counts)
        elif self.path.endswith("/converse"):
            usage = {} if model == "without_usage" else {"usage": BEDROCK_USAGE}
            message = {"role": "assistant", "content": blocks}
            self._answer(200, {"output": {"message": message}, "stopReason": reason, **usage})
        else:
            events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
            for index, call in enumerate(calls):
                events.append(("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": call}}))
                delta = {"toolUse": {"input": '{"a": 1}'}}
                events.append(("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
            texts = () if calls else ("planted", " answer")
            events += [("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in texts]
            events += [("messageStop", {"stopReason": reason}), ("metadata", {"usage": BEDROCK_USAGE})]
            data = [_message(":event-type", name, "event", event) for name, event in events]
            if model == "breaking":
                data[2:] = [_message(":exception-type", "throttlingException", "exception", {"message": "planted"})]
            self._stream(data, "application/vnd.amazon.eventstream", stall=model == "stalling")

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        kind = "text/html" if isinstance(body, bytes) else "application/json"
        for key, value in {"content-type": kind, "request-id": "req_1", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: list[bytes], kind: str, *, stall: bool = False) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for number, piece in enumerate(pieces):
                if stall and number == min(4, len(pieces) - 1):
                    self.server.slow_request_seen.set()
                    self.server.release.wait(10)
                self.wfile.write(piece)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""


def _event(event: Any) -> bytes:
    if isinstance(event, str):
        return f"event: content_block_delta\ndata: {event}\n\n".encode()
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _message(kind: str, name: str, message_type: str, body: dict[str, Any]) -> bytes:
    """A message of AWS' event streams: lengths, headers, payload, each part with its checksum."""
    values = {kind: name, ":message-type": message_type, ":content-type": "application/json"}
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for key, value in values.items()
    )
    payload = json.dumps(body).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))


class FakeModels(ThreadingHTTPServer):
    """The server; ``with FakeModels() as server`` runs it on a free loopback port."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        #: (path, headers, body) of every request.
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        #: That many next requests get a 529.
        self.failures = 0
        #: Ends what is waiting for the models "slow" and "stalling".
        self.release = threading.Event()
        self.slow_request_seen = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

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
