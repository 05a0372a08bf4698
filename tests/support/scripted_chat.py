"""A loopback server of the chat protocol whose answers follow a plan, for agents that go on until they are done."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

#: A turn is a text, a list of calls (tool, arguments), or a status of HTTP.
Turn = str | list[tuple[str, dict[str, Any]]] | int
#: Tokens of every call.
INPUT, OUTPUT = 11, 7


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedChat

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        self.server.traceparents.append(self.headers.get("traceparent"))
        turn = self.server.turn_of(body)
        if turn == "hang":
            self.server.asked.set()
            self.server.release.wait(20)
        if isinstance(turn, int):
            self._send(turn, "application/json", json.dumps({"error": {"message": "broken"}}).encode())
            return
        message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            message["tool_calls"] = [
                {
                    "id": f"call_{len(self.server.requests)}_{number}",
                    "index": number,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(given)},
                }
                for number, (name, given) in enumerate(turn)
            ]
        reason = "stop" if isinstance(turn, str) else "tool_calls"
        head = {"id": f"chatcmpl-{len(self.server.requests)}", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
        if body.get("stream"):
            deltas = [{"index": 0, "delta": message, "finish_reason": None}]
            deltas.append({"index": 0, "delta": {}, "finish_reason": reason})
            chunks = [{**head, "object": "chat.completion.chunk", "choices": [one]} for one in deltas]
            chunks.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
            self._send(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())
            return
        choice = {"index": 0, "message": message, "finish_reason": reason}
        answer = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        self._send(200, "application/json", json.dumps(answer).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""


class ScriptedChat(ThreadingHTTPServer):
    """``plans`` has the turns by model; the number of answers in a request says which turn it is.

    ``in_order``: the number of requests says it, for programs that show the model no answers of its own.
    """

    daemon_threads = True

    def __init__(self, plans: dict[str, list[Turn]], *, in_order: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plans = plans
        self.in_order = in_order
        self.requests: list[dict[str, Any]] = []
        self.traceparents: list[str | None] = []
        #: A request for the turn "hang" is there, and is answered when this is set.
        self.asked, self.release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def turn_of(self, body: dict[str, Any]) -> Turn:
        """Return what to answer."""
        turns = self.plans[body["model"]]
        number = sum(message["role"] == "assistant" for message in body["messages"])
        if self.in_order:
            number = sum(request["model"] == body["model"] for request in self.requests) - 1
        return turns[min(number, len(turns) - 1)]

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
