"""A real otelcol-rl under test: start it on free ports, send to it, read what it wrote, stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shipped_settings
from loopback_ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CONFIGURATION = Path(__file__).resolve().parents[3] / "collector-config"
COMMON = "common.yaml"
ROLES = ("local.yaml", "agent.yaml", "gateway.yaml")
FILE_SINK = Path(__file__).parent / "file-sink.yaml"
#: Enough on a machine with much else to do; what goes well never waits for it.
PATIENCE_SECONDS = 120.0
START_SECONDS = 300.0
READY = "Everything is ready"
SIGNAL_PATHS = {"traces": "resourceSpans", "metrics": "resourceMetrics", "logs": "resourceLogs"}


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Poll until `condition` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def with_common(files: Sequence[str | Path]) -> list[str | Path]:
    """These files, and before a role the one that every role builds on."""
    lacks_common = COMMON not in files and any(file in ROLES for file in files)
    return [COMMON, *files] if lacks_common else list(files)


def _is_of_a_collector(group: dict[str, Any]) -> bool:
    name = {"key": "service.name", "value": {"stringValue": "otelcol-rl"}}
    return name in group.get("resource", {}).get("attributes", [])


class CollectorProcess:
    """One collector process; a context manager that leaves nothing behind.

    Configurations are paths, or names below ``collector-config``; a role brings ``common.yaml``. The environment may
    hold settings too, named by their paths (:mod:`shipped_settings`): they come after the files.
    """

    def __init__(
        self,
        binary: Path,
        configurations: Sequence[str | Path],
        folder: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        grpc, self.http_port, health, self.metrics_port, nowhere = free_ports(5)
        self.health_url = f"http://127.0.0.1:{health}/"
        variables, self.settings = shipped_settings.split(environment or {})
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
            "OTEL_RL_COLLECTOR_GRPC_PORT": str(grpc),
            "OTEL_RL_COLLECTOR_HTTP_PORT": str(self.http_port),
            "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": f"127.0.0.1:{health}",
            "OTEL_RL_COLLECTOR_METRICS_PORT": str(self.metrics_port),
            "OTEL_RL_COLLECTOR_DATA_DIR": str(self.data),
            "OTEL_RL_COLLECTOR_QUEUE_DIR": str(folder / "queue"),
            "OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{nowhere}",
            "OTEL_RL_COLLECTOR_GATEWAYS": f'["127.0.0.1:{nowhere}"]',
            **variables,
        }
        self.command = [str(binary)]
        for file in with_common(configurations):
            self.command += ["--config", str(CONFIGURATION / file)]
        self.command += shipped_settings.flags(self.settings)
        self.process: subprocess.Popen[bytes] | None = None

    def validate(self) -> subprocess.CompletedProcess[str]:
        """Run `otelcol-rl validate` on the same files with the same environment."""
        command = [self.command[0], "validate", *self.command[1:]]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def __enter__(self) -> CollectorProcess:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        with (self.folder / "collector.log").open("wb") as log:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def wait_until_ready(self) -> None:
        """Wait until the process takes data and, so near as it tells, signals."""
        wait_for(self._ready, "the collector is ready", START_SECONDS)

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the collector ended at its start:\n{self.log()[-3000:]}"
        # It begins to listen to signals right after this line, which is later than its health: a signal before that
        # ends it at once. The health is asked after the line was seen.
        if READY not in self.log():
            return False
        try:
            with urllib.request.urlopen(self.health_url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def log(self) -> str:
        """Return what the collector said so far."""
        return (self.folder / "collector.log").read_text(errors="replace")

    def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        """Return the status code and the body of a health path."""
        try:
            with urllib.request.urlopen(self.health_url.rstrip("/") + path, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def stop(self) -> int:
        """Ask the process to end, wait until all is written, and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def send(self, signal_name: str, resources: list[dict[str, Any]]) -> None:
        """Send one OTLP/HTTP JSON request; `signal_name` is traces, metrics or logs."""
        body = json.dumps({SIGNAL_PATHS[signal_name]: resources}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/v1/{signal_name}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert json.loads(answer.read() or b"{}").get("partialSuccess", {}) == {}

    def text(self, signal_name: str) -> str:
        """Return the raw file of one signal, empty when nothing was written."""
        file = self.data / f"{signal_name}.jsonl"
        return file.read_text() if file.exists() else ""

    def _written(self, signal_name: str) -> Iterator[dict[str, Any]]:
        for line in self.text(signal_name).splitlines(keepends=True):
            if line.endswith("\n"):
                yield from json.loads(line).get(SIGNAL_PATHS[signal_name], [])

    def resources(self, signal_name: str) -> Iterator[dict[str, Any]]:
        """Iterate over the resource groups that were sent and written completely."""
        return (group for group in self._written(signal_name) if not _is_of_a_collector(group))

    def own_resources(self, signal_name: str) -> Iterator[dict[str, Any]]:
        """Iterate over the resource groups in which collectors speak about themselves."""
        return (group for group in self._written(signal_name) if _is_of_a_collector(group))

    def spans(self) -> list[dict[str, Any]]:
        """Return every span that was written."""
        groups = (scope for resource in self.resources("traces") for scope in resource["scopeSpans"])
        return [span for group in groups for span in group["spans"]]

    def metrics(self) -> list[dict[str, Any]]:
        """Return every metric that was written."""
        groups = (scope for resource in self.resources("metrics") for scope in resource["scopeMetrics"])
        return [metric for group in groups for metric in group["metrics"]]

    def log_records(self) -> list[dict[str, Any]]:
        """Return every log record that was written."""
        groups = (scope for resource in self.resources("logs") for scope in resource["scopeLogs"])
        return [record for group in groups for record in group["logRecords"]]
