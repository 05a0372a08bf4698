"""A collector to be measured: started on loopback, its CPU seconds and its memory read from the kernel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from figures import environment as inherited

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "collector-config"
_TICK, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def binary() -> Path:
    """Path of the collector of this checkout, built where it is not yet, or of the one that a variable names."""
    if named := os.environ.get("OTEL_RL_COLLECTOR_BINARY"):
        return Path(named)
    build = subprocess.run(
        [sys.executable, ROOT / "otelcol-builder" / "build.py"], stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(build.stdout.splitlines()[-1])


def free_ports(number: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Collector:
    """One collector process on some configuration files; a context manager."""

    def __init__(
        self, program: Path, configurations: Sequence[Path], folder: Path, environment: dict[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.grpc_port, self.http_port, self._health_port, self._metrics_port = free_ports(4)
        self._environment = {
            **inherited(),
            "OTEL_RL_COLLECTOR_GRPC_PORT": str(self.grpc_port),
            "OTEL_RL_COLLECTOR_HTTP_PORT": str(self.http_port),
            "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": f"127.0.0.1:{self._health_port}",
            "OTEL_RL_COLLECTOR_METRICS_PORT": str(self._metrics_port),
            "OTEL_RL_COLLECTOR_DATA_DIR": str(folder / "data"),
            "OTEL_RL_COLLECTOR_QUEUE_DIR": str(folder / "queue"),
            **(environment or {}),
        }
        self._command: list[str | Path] = [program]
        for file in configurations:
            self._command += ["--config", file]
        self._command += ["--config", "yaml:service::telemetry::logs::level: warn"]
        self._process: subprocess.Popen[bytes] | None = None
        self.seconds_to_healthy = 0.0

    def __enter__(self) -> Collector:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        begin = time.perf_counter()
        with (self._folder / "collector.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )
        try:
            self._wait_until_healthy(begin + 60)
        except BaseException:
            self.stop()
            raise
        self.seconds_to_healthy = time.perf_counter() - begin
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _wait_until_healthy(self, deadline: float) -> None:
        while not self._healthy():
            if time.perf_counter() > deadline:
                raise SystemExit(f"the collector does not become healthy:\n{self.log()[-3000:]}")
            time.sleep(0.005)

    def _healthy(self) -> bool:
        assert self._process is not None  # noqa: S101 - only called between start and stop
        if self._process.poll() is not None:
            raise SystemExit(f"the collector ended at its start:\n{self.log()[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health_port}/", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def log(self) -> str:
        """Return what the collector said so far."""
        return (self._folder / "collector.log").read_text(errors="replace")

    def stop(self) -> None:
        """Ask the process to end and wait for it."""
        assert self._process is not None  # noqa: S101
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    @property
    def _kernel(self) -> Path:
        assert self._process is not None  # noqa: S101
        return Path("/proc") / str(self._process.pid)

    def cpu_seconds(self) -> float:
        """User and system time of the process so far, in steps of the kernel's tick (10 ms)."""
        fields = (self._kernel / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident_mebibytes(self) -> float:
        """Memory of the process in MiB."""
        return int((self._kernel / "statm").read_text().split()[1]) * _PAGE / (1 << 20)

    def metric(self, name: str, label: str = "") -> float:
        """Sum of one of the collector's own metrics over its series with this label; 0 where it is not there yet."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        series = (line for line in lines if line.startswith((f"{name}{{", f"{name} ")) and label in line)
        return sum(float(line.split()[-1]) for line in series)
