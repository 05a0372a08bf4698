"""CPU of a process that asks eight engines for their metrics every 15 s, as a share of a core.

    python benchmarks/engine_metrics.py [--output FILE]

Each engine answers with a page of 160 kB, about as long as vLLM's. The engines are in processes of their own.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from figures import bootstrap, finish

from otel_rl.inference import engine_metrics, engine_targets

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

ENGINES, ROUNDS = engine_metrics.MOST_ENGINES, 40
BUCKET = b'vllm:m%d_bucket{engine="0",le="%d",model_name="m"} 1.0\n'
BUCKETS = (BUCKET % (metric, bound) for metric in range(140) for bound in range(20))
GAUGES = b"".join(
    b'vllm:%s{engine="0",model_name="m"} 1.0\n' % name
    for name in (b"num_requests_running", b"num_requests_waiting", b"kv_cache_usage_perc")
)
PAGE = b"".join(BUCKETS) + GAUGES


class Engine(BaseHTTPRequestHandler):
    """Answers any GET with the page."""

    def do_GET(self) -> None:
        """Answer with the page."""
        self.send_response(200)
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Not on stderr."""


def serve(ports: Queue[int]) -> None:
    """Be an engine, until this process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    ports.put(server.server_port)
    server.serve_forever()


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    ports: Queue[int] = multiprocessing.Queue()
    servers = [multiprocessing.Process(target=serve, args=(ports,), daemon=True) for _ in range(ENGINES)]
    for server in servers:
        server.start()
    for _ in servers:
        engine_targets.note("127.0.0.1", ports.get(timeout=60))
    asked = engine_metrics._Engines()
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        asked.round()
        rounds.append(time.thread_time() - began)
    for server in servers:
        server.terminate()
    answered = len(asked.values[engine_metrics.metrics.RL_ENGINE_REQUESTS_RUNNING.name])
    if answered != ENGINES:
        raise SystemExit(f"{answered} of {ENGINES} engines were read")
    share = bootstrap(rounds, lambda drawn: sum(drawn) / len(drawn) / engine_metrics.INTERVAL)
    figures = {
        "share of a core": {**share, "judged": share["upper_95"], "limit": 0.002},
        "milliseconds of CPU of the longest round": {"value": round(max(rounds) * 1000, 1)},
    }
    return finish("engine_metrics", figures, rounds, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
