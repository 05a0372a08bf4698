"""Real processes: programs written to a temporary directory and started the way a user starts them."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopback_ports import free_ports
from support import own_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warm_launcher import WarmLauncher

SCRIPTS = Path(sys.executable).parent
INSTRUMENT = SCRIPTS / "opentelemetry-instrument"
BOOTSTRAP = Path(__file__).parents[3] / "instrumentation/otel_rl/distro/bootstrap"
#: What torchrun is to its ranks, without PyTorch: their numbers, and SIGTERM for the others when one has failed.
TORCHRUN = """
import os, subprocess, sys, time
options = dict(word.lstrip("-").split("=") for word in sys.argv[1:] if word.startswith("--"))
nodes, node = int(options.get("nnodes", 1)), int(options.get("node-rank", 0))
each = int(options.get("nproc-per-node", 1))
program = [sys.executable, "-u", *(word for word in sys.argv[1:] if not word.startswith("--"))]
shared = {
    **os.environ, "WORLD_SIZE": str(nodes * each), "LOCAL_WORLD_SIZE": str(each), "GROUP_RANK": str(node),
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": options.get("master-port", "29500"), "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
ranks = [
    subprocess.Popen(program, env={**shared, "RANK": str(node * each + local), "LOCAL_RANK": str(local)})
    for local in range(each)
]
while None in (codes := [rank.poll() for rank in ranks]) and not any(codes): time.sleep(0.01)
for rank in ranks: rank.terminate()
sys.exit(any([rank.wait() for rank in ranks]))
"""
#: For a program whose last line would say after ten seconds that it has recorded nothing.
SHORT = "from otel_rl.ending import summary\nsummary._A_WHILE = float('inf')\n"
#: A program that records one span, one counter and nothing else.
ONE_SPAN = """
from opentelemetry import metrics, trace
with trace.get_tracer("program").start_as_current_span("work"):
    metrics.get_meter("program").create_counter("made").add(1)
"""


@dataclass
class Finished:
    """A process that has ended."""

    code: int
    out: str
    err: str


class Programs:
    """Starts programs in a directory of their own and reads what they left in the file store."""

    def __init__(self, directory: Path, launcher: WarmLauncher | None = None) -> None:
        self.directory = directory
        self.launcher = launcher
        self.environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON", "TRACEPARENT"))
        }
        self.environ["OTEL_RL_RAISE_INTERNAL_ERRORS"] = "1"
        # The default is for a machine that is not busy.
        self.environ["OTEL_RL_EXIT_TIMEOUT"] = "10"

    def write(self, name: str, text: str) -> Path:
        """A file of the program."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *command: str | Path, timeout: float = 300, **environ: str) -> Finished:
        """Run ``command``; ``environ`` is added to the environment."""
        words, environ = list(map(str, command)), {**self.environ, **environ}
        # The launcher is a Python program too: with a path of the user it may import other modules.
        packages = str(self.directory / "site")
        if command[0] == INSTRUMENT and self.launcher and environ.get("PYTHONPATH", packages) == packages:
            return Finished(*self.launcher.run(words, self.directory, environ, timeout))
        done = subprocess.run(
            words, cwd=self.directory, env=environ, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def torchrun(self, text: str, *options: str, **environ: str) -> Finished:
        """Run ``text`` as ``program.py`` under our stand-in for torchrun."""
        torchrun, program = self.write("bin/torchrun", TORCHRUN), self.write("program.py", text)
        return self.run(INSTRUMENT, sys.executable, torchrun, *options, program, **environ)

    def otel_rl(self, *arguments: str | Path, **environ: str) -> Finished:
        """Run the command ``otel-rl`` in this process."""
        return Finished(*own_command.run(self.directory, *arguments, environ={**self.environ, **environ}))

    def plain(self, text: str, *arguments: str, **environ: str) -> Finished:
        """Run ``text`` as ``program.py`` without us."""
        return self.run(sys.executable, self.write("program.py", text), *arguments, **environ)

    def instrumented(self, text: str, *arguments: str, timeout: float = 300, **environ: str) -> Finished:
        """Run ``text`` as ``program.py`` under ``opentelemetry-instrument``, with nothing else set."""
        command = [INSTRUMENT, sys.executable, self.write("program.py", text), *arguments]
        return self.run(*command, timeout=timeout, **environ)

    def child(self, *command: str | Path, **environ: str) -> Finished:
        """Run ``command`` as a child of an instrumented process would be started: with our bootstrap folder."""
        ours = {
            "PYTHONPATH": str(BOOTSTRAP),
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_DATA_DIR": str(self.directory / "otel-rl"),
        }
        return self.run(*command, **{**ours, **environ})

    @property
    def store(self) -> Store:
        """What the programs have written."""
        return Store(self.directory / "otel-rl")


class Store:
    """Reads the file store below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def directories(self) -> list[Path]:
        """One per process that recorded something."""
        return sorted(path.parent for path in self.root.glob("*/*/manifest.json"))

    def manifests(self) -> list[dict[str, Any]]:
        return [json.loads((path / "manifest.json").read_text()) for path in self.directories]

    def _lines(self, signal: str) -> Iterator[dict[str, Any]]:
        """Parsed lines; what SIGKILL cut in the middle is no line, as for the product's reader."""
        for path in sorted(self.root.glob(f"*/*/{signal}-*.jsonl*")):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for line in content.splitlines(keepends=True):
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def resources(self, signal: str = "traces") -> list[dict[str, Any]]:
        """Resource attributes, one per resource and line."""
        field = {"traces": "resourceSpans", "metrics": "resourceMetrics", "logs": "resourceLogs"}[signal]
        return [plain(resource["resource"]["attributes"]) for line in self._lines(signal) for resource in line[field]]

    def spans(self) -> list[dict[str, Any]]:
        return [
            span
            for line in self._lines("traces")
            for resource in line["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def span_names(self) -> list[str]:
        return sorted(span["name"] for span in self.spans() if not span["name"].startswith("rl.run"))

    def points(self, metric_name: str) -> list[dict[str, Any]]:
        """Data points of a metric, in the order written."""
        return [
            point
            for line in self._lines("metrics")
            for resource in line["resourceMetrics"]
            for scope in resource["scopeMetrics"]
            for metric in scope["metrics"]
            if metric["name"] == metric_name
            for kind in ("sum", "gauge", "histogram")
            for point in metric.get(kind, {}).get("dataPoints", ())
        ]

    def places(self, name: str) -> list[tuple[Any, Any]]:
        """(rank, pid) of the processes that wrote event ``name``."""
        return sorted(
            (values.get("rl.rank"), values["process.pid"])
            for line in self._lines("logs")
            for resource in line["resourceLogs"]
            for values in [plain(resource["resource"]["attributes"])]
            for scope in resource["scopeLogs"]
            for record in scope["logRecords"]
            if record.get("eventName") == name
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        return [
            record
            for line in self._lines("logs")
            for resource in line["resourceLogs"]
            for scope in resource["scopeLogs"]
            for record in scope["logRecords"]
            if record.get("eventName") == name
        ]


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """OTLP attributes as a mapping."""
    found = {}
    for attribute in attributes:
        ((kind, value),) = attribute["value"].items()
        found[attribute["key"]] = int(value) if kind == "intValue" else value
    return found


@contextmanager
def silent_server() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield server.getsockname()[1]


def closed_port() -> int:
    """A port at which nothing listens."""
    return free_ports(1)[0]


class Collector:
    """Counts OTLP/HTTP requests by path, and keeps their content; answers each with ``status``, headers and body."""

    def __init__(self, status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.status = status
        self.requests: list[str] = []
        self.bodies: list[tuple[str, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                sent = gzip.decompress(sent) if self.headers["Content-Encoding"] == "gzip" else sent
                status = outer.status
                if status < 500:
                    outer.bodies.append((self.path, sent))
                outer.requests.append(self.path)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def spans(self) -> list[str]:
        """Names of all spans received, in their order."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]
        return [
            span.name
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> dict[str, list[dict[str, Any]]]:
        """Signal -> resource attributes of what was received, in its order."""
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        kinds = {
            "traces": ExportTraceServiceRequest,
            "metrics": ExportMetricsServiceRequest,
            "logs": ExportLogsServiceRequest,
        }
        found: dict[str, list[dict[str, Any]]] = {signal: [] for signal in kinds}
        for path, body in self.bodies:
            signal = path.rpartition("/")[2]
            for parts in MessageToDict(kinds[signal].FromString(body)).values():
                found[signal] += [plain(part["resource"]["attributes"]) for part in parts]
        return found

    def points(self, metric_name: str) -> list[int]:
        """Values of all points of a sum of integers, in their order."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        requests = [ExportMetricsServiceRequest.FromString(body) for path, body in self.bodies if "metrics" in path]
        return [
            point.as_int
            for request in requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == metric_name
            for point in metric.sum.data_points
        ]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
