"""`compose/stack.py up` and `down`: one clear line when it cannot start, and it stops exactly what it started."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import processes
import pytest
from stack import PORTS, Stack, StackError, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).resolve().parents[3] / "compose" / "stack.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def test_taken_port_is_named_with_the_variable_that_moves_it(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        ports = {PORTS[name].variable: str(port) for name, port in free_ports().items()}
        answer = run("up", "--state", str(tmp_path), **{**ports, "OTEL_RL_STACK_LOKI_PORT": str(number)})
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert f"port {number} (loki)" in answer.stderr
    assert "OTEL_RL_STACK_LOKI_PORT" in answer.stderr
    assert not (tmp_path / "processes.json").exists()


@pytest.mark.parametrize("text", ["http", "0", "70000", "-1"])
def test_variable_that_is_no_port_is_named(tmp_path: Path, text: str):
    answer = run("up", "--state", str(tmp_path), OTEL_RL_STACK_TEMPO_PORT=text)
    assert answer.returncode == 1
    assert f"OTEL_RL_STACK_TEMPO_PORT={text} is not a port" in answer.stderr


def test_down_without_up_says_that_nothing_runs(tmp_path: Path):
    answer = run("down", "--state", str(tmp_path), OTEL_RL_STACK_TEMPO_PORT="no port")
    assert (answer.returncode, answer.stdout) == (0, f"nothing of {tmp_path} runs\n")


def test_down_leaves_a_process_alone_that_got_the_id_of_a_recorded_one(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        recorded = {"name": "tempo", "pid": bystander.pid, "start_time": "1"}
        (tmp_path / "processes.json").write_text(json.dumps({"ports": {}, "processes": [recorded]}))
        assert "nothing" in run("down", "--state", str(tmp_path)).stdout
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def patience_ends_after(process: processes.Started) -> Callable[[], float]:
    """A clock that stands still until the process has ended and has been missed twice, and is far ahead then."""
    asked = itertools.count()
    return lambda: 0.0 if process.running or next(asked) < 2 else 100.0


def test_down_says_what_it_waits_for_and_what_it_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    polite = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit()); open('polite', 'w'); signal.pause()"
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('stubborn', 'w'); signal.pause()"
    started = [
        processes.start(name, [sys.executable, "-c", text], tmp_path / f"{name}.log", tmp_path, dict(os.environ))
        for name, text in (("polite", polite), ("stubborn", stubborn))
    ]
    while not all((tmp_path / process.name).exists() for process in started):
        assert all(process.running for process in started)
        time.sleep(0.05)
    clock = SimpleNamespace(monotonic=patience_ends_after(started[0]), sleep=time.sleep)
    monkeypatch.setattr(processes, "time", clock)
    told: list[str] = []
    processes.stop(started, told.append)
    assert told == [
        "stopping polite, stubborn (20 s at most)",
        "waiting for stubborn",
        "stubborn did not end within 20 s; killing",
    ]
    assert not any(process.running for process in started)


def test_program_that_ends_at_its_start_is_named_and_the_others_are_stopped(tmp_path: Path):
    ports = free_ports()
    stack = Stack(tmp_path, ports, {"OTEL_RL_COLLECTOR_DECISION_WAIT": "soon"})
    with pytest.raises(StackError, match=r"(?s)otelcol-rl ended at its start.*decision_wait"):
        stack.start()
    assert stack.running() == []
    assert not (tmp_path / "processes.json").exists()


def test_up_prints_addresses_and_down_stops_exactly_its_processes(tmp_path: Path):
    state = tmp_path / "state"
    ports = free_ports()
    variables = {PORTS[name].variable: str(port) for name, port in ports.items()}
    try:
        # What `up` tells to export for the jobs must not make the servers send traces of their own.
        first = run("up", "--state", str(state), **variables, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
        assert first.returncode == 0, first.stderr
        for name in ("collector_grpc", "collector_http", "prometheus", "tempo", "loki"):
            assert f"http://127.0.0.1:{ports[name]}" in first.stdout
        assert "grafana     not started" in first.stdout
        record = json.loads((state / "processes.json").read_text())
        started = [processes.Started(**entry) for entry in record["processes"]]
        assert all(process.running for process in started)
        environments = [Path(f"/proc/{process.pid}/environ").read_bytes() for process in started]
        assert not [name for name in environments if b"OTEL_EXPORTER" in name]
        again = run("up", "--state", str(state))
        assert "already runs" in again.stdout
        assert f"http://127.0.0.1:{ports['prometheus']}" in again.stdout
    finally:
        stopped = run("down", "--state", str(state))
    assert stopped.stdout == "stopped prometheus, tempo, loki, otelcol-rl\n"
    assert stopped.stderr.startswith("otel-rl stack: stopping prometheus, tempo, loki, otelcol-rl (20 s at most)\n")
    assert not any(process.running for process in started)
