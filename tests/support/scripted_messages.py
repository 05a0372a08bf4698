"""A loopback server of Anthropic's protocol whose answers follow a plan; see ``scripted_chat``."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.scripted_chat import Turn
    from typing_extensions import Self

USAGE = {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
#: Tokens of every call.
INPUT, OUTPUT = 17, 7


def events_of(head: dict[str, Any], blocks: list[dict[str, Any]], reason: str) -> list[dict[str, Any]]:
    """The events of a streamed message; the output tokens of its first one are those so far."""
    usage = {**USAGE, "output_tokens": 1}
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        found.append({"type": "content_block_start", "index": index, "content_block": empty})
        found.append({"type": "content_block_delta", "index": index, "delta": delta})
        found.append({"type": "content_block_stop", "index": index})
    found.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": OUTPUT}})
    return [*found, {"type": "message_stop"}]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedMessages

    def do_GET(self) -> None:
        self._send(404, "text/plain", b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answers = sum(message["role"] == "assistant" for message in body["messages"])
        turn = self.server.plan[min(answers, len(self.server.plan) - 1)]
        if "nested" in json.dumps(body["messages"][0]):
            turn = "done"
        if turn == "hang":
            self.server.asked.set()
            self.server.release.wait(30)
        if isinstance(turn, int):
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": "broken"}}
            self._send(turn, "application/json", json.dumps(error).encode())
            return
        number = len(self.server.requests)
        self.server.requests.append(body)
        reason, blocks = "end_turn", [{"type": "text", "text": turn}]
        if not isinstance(turn, str):
            reason = "tool_use"
            blocks = [
                {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": given}
                for place, (name, given) in enumerate(turn)
            ]
        head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        if body.get("stream"):
            events = events_of(head, blocks, reason)
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send(200, "text/event-stream", text.encode())
            return
        answer = {**head, "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": USAGE}
        self._send(200, "application/json", json.dumps(answer).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""


class ScriptedMessages(ThreadingHTTPServer):
    """The number of answers in a request says which turn of ``plan`` it is; a "nested" question is done at once."""

    daemon_threads = True

    def __init__(self, plan: list[Turn]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan = plan
        #: Those that were answered.
        self.requests: list[dict[str, Any]] = []
        #: A request for the turn "hang" is there, and is answered when this is set.
        self.asked, self.release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.shutdown()
        self._thread.join(5)
        self.server_close()
