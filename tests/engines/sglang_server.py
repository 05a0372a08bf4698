"""SGLang's server, plain or under `opentelemetry-instrument`, which exports its own spans; and its router."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from engine_runs import HERE, SCRIPTS, environment
from loopback_ports import free_ports
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from pathlib import Path

    from support.otlp_servers import HTTPServer
    from typing_extensions import Self

#: Seconds: on two busy cores a start takes up to four minutes.
START, ARRIVAL, END = 360, 30, 60
#: What the CPU engine takes, and what is slow to start there.
ON_CPU = (
    *("--device", "cpu", "--dtype", "float32", "--max-total-tokens", "4096"),
    *("--attention-backend", "torch_native", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--disable-overlap-schedule", "--disable-radix-cache", "--skip-server-warmup"),
)
VARIABLES = {
    "SGLANG_USE_CPU_ENGINE": "1",
    # Of its own tracer.
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
}


class Process:
    """A server that has started, inside of `with`; what it writes is in ``log``."""

    #: Path that is answered with 200 once it is ready.
    ready: str

    def __init__(self, folder: Path, command: list[str], port: int, variables: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        self._command, self._variables = command, variables

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def __enter__(self) -> Self:
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                env=environment(self.folder, **self._variables),
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._end()
            raise
        return self

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START
        while not self._answers():
            assert self._process.poll() is None, self.log[-6000:]
            assert time.monotonic() < deadline, self.log[-6000:]
            threading.Event().wait(0.5)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + self.ready, timeout=20) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class Served(Process):
    """A server, and the receiver of its own spans."""

    ready = "/health"

    def __init__(self, folder: Path, model: Path, receiver: HTTPServer, *, watched: bool) -> None:
        self.receiver, self.watched = receiver, watched
        [port] = free_ports(1)
        command = [sys.executable, str(HERE / "sglang_on_cpu.py"), "--model-path", str(model), *ON_CPU]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--enable-metrics"]
        command += ["--enable-trace", "--otlp-traces-endpoint", f"http://127.0.0.1:{receiver.port}/v1/traces"]
        if watched:
            command.insert(0, str(SCRIPTS / "opentelemetry-instrument"))
        super().__init__(folder, command, port, VARIABLES)

    def requests(self, number: int) -> list[Any]:
        """Spans of whole requests that it has exported, once there are so many that have a parent."""
        deadline = time.monotonic() + ARRIVAL
        while len(found := self._requests()) < number and time.monotonic() < deadline:
            threading.Event().wait(0.2)
        return found

    def _requests(self) -> list[Any]:
        # Its checks of its own health have no parent. The names are "Req" and a part of the id.
        return [span for span in self.spans() if span.name.strip().startswith("Req ") and span.parent_span_id]

    def spans(self) -> list[Any]:
        """All spans that it has exported."""
        sent = [ExportTraceServiceRequest.FromString(body) for _, _, body in list(self.receiver.requests)]
        scopes = [scope for one in sent for resource in one.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]


class Router(Process):
    """SGLang's own router before these workers."""

    ready = "/readiness"

    def __init__(self, folder: Path, *workers: str) -> None:
        port, metrics = free_ports(2)
        command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--worker-urls", *workers, "--policy", "round_robin"]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
        super().__init__(folder, command, port, {})
