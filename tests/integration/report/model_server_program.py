"""Rollouts that ask a model server: `model_server_program.py FIRST_CHUNK [SLOW_STEP]`, the former in seconds.

From SLOW_STEP on, the first chunk of an answer takes twenty times as long, and every other call is refused once with
status 500, after which the client sends it again.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

import otel_rl

STEPS, CALLS, FIRST_CHUNK = 30, 2, float(sys.argv[1])
slow_step = int(sys.argv[2]) if sys.argv[2:] else STEPS + 1
state = {"slow": False}
numbers = itertools.count()
chance = random.Random(0)  # noqa: S311 - no secret


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        is_retry = self.headers.get("x-stainless-retry-count", "0") != "0"
        if state["slow"] and not is_retry and next(numbers) % 2:
            self._answer(500, "application/json", b"{}")
            return
        time.sleep(FIRST_CHUNK * (20 if state["slow"] else 1) * chance.uniform(0.8, 1.2))
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        chunk["choices"] = [{"index": 0, "delta": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]
        self._answer(200, "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

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


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
for step in range(1, STEPS + 1):
    state["slow"] = step >= slow_step
    with otel_rl.step(step), otel_rl.phase("sample"):
        for number in range(CALLS):
            with otel_rl.rollout(sample_id=f"{step}-{number}"):
                time.sleep(0.005)
                answer = client.chat.completions.create(
                    model="tiny", messages=[{"role": "user", "content": "?"}], stream=True
                )
                otel_rl.reward("length", float(sum(1 for _ in answer)))
server.shutdown()
