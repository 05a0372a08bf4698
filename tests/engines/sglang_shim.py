"""SGLang's ``/generate`` in front of vLLM's server: SGLang itself does not run on a CPU.

Stands for the engine behind SGLang's own router, in the forms of SGLang 0.5.23. What an answer says comes from vLLM.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

#: What the router asks a worker about itself.
ABOUT = {"model_path": "tiny", "served_model_name": "tiny", "is_generation": True, "weight_version": "7"}
_HANDED_ON = ("traceparent", "tracestate", "baggage")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Shim

    def do_GET(self) -> None:
        self._answer(ABOUT)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        self.server.requests.append((self.path, dict(self.headers.items()), body))
        if self.path != "/generate":
            self._answer({"success": True})
        elif body.get("stream"):
            self._stream(self._generated(body))
        else:
            self._answer(self._generated(body))

    def _stream(self, found: dict[str, Any]) -> None:
        """Events as SGLang sends them: each has the text so far; the last has the reason and what was counted."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        unfinished = {**found["meta_info"], "finish_reason": None, "completion_tokens": 1}
        for event in ({"text": found["text"][:1], "meta_info": unfinished}, found):
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _generated(self, body: dict[str, Any]) -> dict[str, Any]:
        sampling = body.get("sampling_params", {})
        asked = {"model": "tiny", "prompt": body["text"], "max_tokens": sampling.get("max_new_tokens", 4)}
        headers = {name: self.headers[name] for name in _HANDED_ON if self.headers[name]}
        request = urllib.request.Request(
            f"{self.server.engine}/v1/completions",
            json.dumps({**asked, "temperature": 0}).encode(),
            {"content-type": "application/json", **headers},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        [choice], usage, times = answer["choices"], answer["usage"], answer["metrics"]
        queue, prefill, decode = (
            times[f"{name}_ms"] / 1000 for name in ("queue_time", "time_to_first_token", "generation_time")
        )
        meta = {
            "id": answer["id"],
            "finish_reason": {"type": choice["finish_reason"]},
            "prompt_tokens": usage["prompt_tokens"],
            "completion_tokens": usage["completion_tokens"],
            "weight_version": ABOUT["weight_version"],
            "queue_time": queue,
            "first_token_latency": queue + prefill,
            "e2e_latency": queue + prefill + decode,
        }
        return {"text": choice["text"], "meta_info": meta}

    def _answer(self, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Not on stderr."""


class Shim(ThreadingHTTPServer):
    """Running inside of `with`; ``requests`` has path, headers and body of what came."""

    daemon_threads = True

    def __init__(self, engine: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.engine = engine
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
