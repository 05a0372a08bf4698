"""A service over HTTP that answers all that Tinker's real client asks of it, at once and with made-up numbers."""

from __future__ import annotations

import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, ClassVar

from tinker.proto import tinker_public_pb2 as messages


def _sampled(number: int) -> bytes:
    """Answers of two tokens, cut off."""
    answer = messages.SampleResponse()
    for _ in range(number):
        tokens, logprobs = struct.pack("<2i", 7, 8), struct.pack("<2f", -0.5, -0.5)
        answer.sequences.add(tokens=tokens, logprobs=logprobs, stop_reason=messages.STOP_REASON_LENGTH)
    return bytes(answer.SerializeToString())


#: Last part of the path of an operation -> what its future is answered with: JSON, or a message that is no JSON.
ANSWERS: dict[str, dict[str, Any] | bytes] = {
    "create_model": {"type": "create_model", "model_id": "model"},
    "forward": b"",
    "forward_backward": b"",
    "optim_step": {"metrics": {}},
    "save_weights": {"type": "save_weights", "path": "tinker://state"},
}
#: What is answered without a future.
DIRECT: dict[str, dict[str, Any]] = {
    "create_session": {"type": "create_session", "session_id": "session"},
    "create_sampling_session": {"type": "create_sampling_session", "sampling_session_id": "sampler"},
    "session_heartbeat": {"type": "session_heartbeat"},
    "get_info": {"model_id": "model", "model_data": {"model_name": "Qwen/Qwen3-8B"}},
    # Of `samplers/sampler`.
    "sampler": {"sampler_id": "sampler", "base_model": "Qwen/Qwen3-8B", "model_path": "tinker://first"},
    "telemetry": {"status": "accepted"},
}


class Service(ThreadingHTTPServer):
    """Listens on a free port of this machine; ``asked`` has the paths of what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.answers: dict[str, dict[str, Any] | bytes] = {}
        self.numbers = count()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any] | bytes:
        """Return the answer itself, or the promise of one."""
        if operation == "retrieve_future":
            return self.answers[asked["request_id"]]
        if operation == "save_weights_for_sampler":
            path = asked.get("path")
            place = {"path": f"tinker://{path}"} if path else {"sampling_session_id": "sampler"}
            return self._promise({"type": operation, "path": None, **place})
        if operation == "asample":
            return self._promise(_sampled(asked["num_samples"]), asked["num_samples"])
        if operation in ANSWERS:
            return self._promise(ANSWERS[operation])
        return DIRECT.get(operation, {})

    def _promise(self, answer: dict[str, Any] | bytes, sequences: int = 0) -> dict[str, Any]:
        request = f"request-{next(self.numbers)}"
        self.answers[request] = answer
        return {"request_id": request, "model_id": "model", "sample_sequence_ids": ["id"] * sequences}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service
    #: Of bodies that are no JSON nothing is read.
    _no_json: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_json = "json" in (self.headers.get("Content-Type") or "")
        self._send(json.loads(body) if is_json and body else self._no_json)

    def do_GET(self) -> None:
        self._send(self._no_json)

    def _send(self, asked: dict[str, Any]) -> None:
        operation = self.path.rpartition("/")[2]
        self.server.asked.append(operation)
        answer = self.server.answer(operation, asked)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", f"application/{'x-protobuf' if body is answer else 'json'}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the output is the tests'."""
