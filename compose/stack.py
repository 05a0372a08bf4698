"""Run the stack of compose.yaml without Docker: otelcol-rl, Prometheus, Tempo and Loki on the loopback interface.

python compose/stack.py up [--state DIR]     build what is missing, start, wait until ready, print the addresses
python compose/stack.py down [--state DIR]   stop exactly the processes that `up` started
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import loopback_ports
import processes
import services
from services import PORTS

if TYPE_CHECKING:
    from collections.abc import Callable

READY_SECONDS = 120.0
HIGHEST_PORT = 65535
NO_GRAFANA = (
    "grafana     not started: it comes as a container image only; "
    "`docker compose -f compose/compose.yaml up -d` starts the whole stack with the boards"
)


class StackError(Exception):
    """The stack cannot start; the message is for the user."""


def default_state() -> Path:
    """Return the folder of data, logs and process records that `up` uses when none is named."""
    configured = os.environ.get("OTEL_RL_STACK_STATE_DIR")
    if configured:
        return Path(configured).absolute()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "otel-rl" / "stack"


def configured_ports() -> dict[str, int]:
    """Return every port: the value of its variable, else its default.

    Raises:
        StackError: a variable is not a port number.
    """
    ports = {}
    for name, port in PORTS.items():
        text = os.environ.get(port.variable) or str(port.default)
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= HIGHEST_PORT):
            raise StackError(f"{port.variable}={text} is not a port: a number from 1 to {HIGHEST_PORT} is needed")
        ports[name] = int(text)
    return ports


def free_ports() -> dict[str, int]:
    """Return a free port for every name, for a stack beside others."""
    return dict(zip(PORTS, loopback_ports.free_ports(len(PORTS)), strict=True))


class Stack:
    """The four processes over one state folder; a context manager: `with Stack(folder, free_ports()) as stack`.

    Args:
        state: folder of data, logs and the record of started processes; made when missing.
        ports: port by name, as `configured_ports` returns it (the default) or `free_ports`.
        environment: further variables of the collector's configuration, for example a short decision wait.
        settings: settings of the collector's files by path (``processors::batch::timeout``), with their values in YAML.
    """

    def __init__(
        self,
        state: Path | None = None,
        ports: dict[str, int] | None = None,
        environment: dict[str, str] | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.state = (state or default_state()).absolute()
        self.ports = configured_ports() if ports is None else ports
        self.environment = environment or {}
        self.settings = settings or {}
        self._record = self.state / "processes.json"

    @property
    def addresses(self) -> dict[str, str]:
        """Address by name: otlp_grpc, otlp_http, prometheus, tempo, loki, collector_metrics."""
        names = {"otlp_grpc": "collector_grpc", "otlp_http": "collector_http", "collector_metrics": "collector_metrics"}
        names.update({name: name for name in ("prometheus", "tempo", "loki")})
        return {name: f"http://127.0.0.1:{self.ports[port]}" for name, port in names.items()}

    def running(self) -> list[processes.Started]:
        """Return the processes of this state folder that still run, with the ports that they were started on."""
        if not self._record.exists():
            return []
        record = json.loads(self._record.read_text(encoding="utf-8"))
        alive = [process for entry in record["processes"] if (process := processes.Started(**entry)).running]
        if alive:
            self.ports = record["ports"]
        return alive

    def start(self) -> None:
        """Start all four and wait until each is ready; when one fails, none is left running.

        Raises:
            StackError: it runs already, a port is taken, a build failed, or a program is not ready within two minutes.
        """
        if self.running():
            raise StackError(f"the stack of {self.state} already runs; stop it first")
        self._check_ports()
        data = self.state / "data"
        logs = self.state / "logs"
        for folder in (data, logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        # Tempo and Loki take the SDK's variables (OTEL_EXPORTER_OTLP_ENDPOINT=...) as a wish to be traced too: they
        # would send spans, also those about storing spans, to the collector that feeds them.
        inherited = {
            name: text
            for name, text in os.environ.items()
            if name.startswith("OTEL_RL_") or not name.startswith("OTEL_")
        }
        environment = {**inherited, **services.environment_of(self.ports, data), **self.environment}
        try:
            programs = services.services(self.ports, data, self.settings)
        except subprocess.CalledProcessError as error:
            raise StackError(f"the build of the stack failed: {error}") from error
        started: list[processes.Started] = []
        try:
            for program in programs:
                log = logs / f"{program.name}.log"
                started.append(processes.start(program.name, program.command, log, self.state, environment))
                self._write_record(started)
            self._wait_until_ready(programs, started)
        except BaseException:
            self.stop()
            raise

    def stop(self, tell: Callable[[str], None] = lambda _: None) -> list[str]:
        """Stop the processes that `start` recorded and return their names; `tell` what is waited for meanwhile."""
        alive = self.running()
        processes.stop(alive, tell)
        self._record.unlink(missing_ok=True)
        return [process.name for process in alive]

    def __enter__(self) -> Stack:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _check_ports(self) -> None:
        for name, port in self.ports.items():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise StackError(
                        f"port {port} ({name}) cannot be used: {error.strerror}; stop what uses it, "
                        f"or set {PORTS[name].variable} to another port"
                    ) from error

    def _write_record(self, started: list[processes.Started]) -> None:
        text = json.dumps({"ports": self.ports, "processes": [asdict(process) for process in started]}, indent=2)
        partial = self._record.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self._record)

    def _wait_until_ready(self, programs: list[services.Service], started: list[processes.Started]) -> None:
        waiting = list(zip(programs, started, strict=True))
        deadline = time.monotonic() + READY_SECONDS
        while waiting:
            for program, process in waiting:
                log = self.state / "logs" / f"{program.name}.log"
                if not process.running:
                    raise StackError(f"{program.name} ended at its start; the end of {log}:\n{_tail(log)}")
                if time.monotonic() > deadline:
                    raise StackError(f"{program.name} is not ready after {READY_SECONDS:.0f} s; see {log}")
            waiting = [(program, process) for program, process in waiting if not _answers(program.ready_url)]
            time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (loopback addresses that we made)
            return bool(answer.status == 200)  # noqa: PLR2004  (HTTP OK)
    except (urllib.error.URLError, OSError):
        return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])


def up(stack: Stack) -> None:
    """Start the stack, unless it runs, and say where everything is."""
    if stack.running():
        print(f"the stack of {stack.state} already runs")
    else:
        stack.start()
    addresses = stack.addresses
    print(f"otelcol-rl  OTLP/gRPC {addresses['otlp_grpc']}   OTLP/HTTP {addresses['otlp_http']}")
    for name in ("prometheus", "tempo", "loki"):
        print(f"{name:<11} {addresses[name]}")
    print(NO_GRAFANA)
    print(f"logs        {stack.state / 'logs'}")
    print("send to it  export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
    print(f"            export OTEL_EXPORTER_OTLP_ENDPOINT={addresses['otlp_http']}")


def down(stack: Stack) -> None:
    """Stop the stack and say what was stopped."""
    stopped = stack.stop(lambda line: print(f"otel-rl stack: {line}", file=sys.stderr, flush=True))
    print(f"stopped {', '.join(stopped)}" if stopped else f"nothing of {stack.state} runs")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("up", "down"))
    parser.add_argument("--state", type=Path, help="folder of data, logs and process records")
    options = parser.parse_args()
    try:
        if options.action == "up":
            up(Stack(options.state))
        else:
            down(Stack(options.state, ports={}))
    except StackError as error:
        print(f"otel-rl stack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
