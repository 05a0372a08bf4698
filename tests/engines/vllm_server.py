"""vLLM's OpenAI server as a process, plain or under `opentelemetry-instrument`, which exports its own spans."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from engine_runs import SCRIPTS, environment
from loopback_ports import free_ports
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from pathlib import Path

    from support.otlp_servers import HTTPServer

#: Seconds: on two busy cores a start takes a minute or two.
START, ARRIVAL, END = 240, 30, 60


class Served:
    """A server, and the receiver of its own spans."""

    def __init__(self, folder: Path, model: Path, receiver: HTTPServer, *, watched: bool, at_once: int = 8) -> None:
        self.receiver, self.folder, self.port = receiver, folder, free_ports(1)[0]
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "256", "--max-num-seqs", str(at_once)]
        command += [
            "--enable-per-request-metrics",
            "--otlp-traces-endpoint",
            f"http://127.0.0.1:{receiver.port}/v1/traces",
        ]
        if watched:
            command.insert(0, str(SCRIPTS / "opentelemetry-instrument"))
        variables = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "200"}
        # The server has operations on its memory, caches and weights then, which trainers use.
        variables["VLLM_SERVER_DEV_MODE"] = "1"
        folder.mkdir()
        self._errors = (folder / "stderr").open("w")
        self._process = subprocess.Popen(
            command,
            env=environment(folder, **variables),
            cwd=folder,
            stdout=self._errors,
            stderr=self._errors,
        )

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has written."""
        return (self.folder / "stderr").read_text()

    def wait_until_it_answers(self) -> None:
        """Return when it can be asked."""
        deadline = time.monotonic() + START
        while not self._answers():
            assert self._process.poll() is None, self.log[-6000:]
            assert time.monotonic() < deadline, self.log[-6000:]
            threading.Event().wait(0.5)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def engine_spans(self, number: int) -> list[Any]:
        """The first spans of requests that the server has exported, once there are so many."""
        deadline = time.monotonic() + ARRIVAL
        while len(found := self._spans("llm_request")) < number and time.monotonic() < deadline:
            threading.Event().wait(0.2)
        return found

    def _spans(self, name: str) -> list[Any]:
        found = []
        for _, _, body in list(self.receiver.requests):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans if span.name == name]
        return found

    def stop(self) -> None:
        """End it by its signal."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._errors.close()
