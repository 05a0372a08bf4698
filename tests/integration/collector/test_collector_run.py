"""`otel-rl collector run` is the collector: its process, its signals, its exit code, and first lines that say where."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collector_process import CollectorProcess
from loopback_ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = "import sys; from otel_rl.cli import main; sys.exit(main())"


@pytest.fixture
def run(otelcol_rl: Path, tmp_path: Path) -> Iterator[Callable[..., CollectorProcess]]:
    """Start the command with ports of its own; what still runs at the end is stopped."""
    started: list[CollectorProcess] = []

    def start(*arguments: str, **environment: str) -> CollectorProcess:
        collector = CollectorProcess(otelcol_rl, [], tmp_path, environment)
        collector.environment |= {"OTEL_RL_COLLECTOR_BINARY": str(otelcol_rl), "XDG_RUNTIME_DIR": str(tmp_path)}
        collector.environment |= environment
        collector.command = [sys.executable, "-c", COMMAND, "collector", "run", *arguments]
        with (tmp_path / "collector.log").open("wb") as log:
            collector.process = subprocess.Popen(
                collector.command, cwd=tmp_path, env=collector.environment, stdout=log, stderr=log
            )
        started.append(collector)
        return collector

    yield start
    for collector in started:
        collector.stop()


def test_it_says_where_it_listens_and_ends_on_a_signal_with_the_exit_code_of_the_collector(run, tmp_path: Path):
    collector = run("--role", "local", "--with", "debug")
    collector.wait_until_ready()
    said = collector.log()
    assert "role local, to files, with debug\n" in said
    assert f"otlp http 127.0.0.1:{collector.http_port}" in said
    assert f"health {collector.health_url}\n" in said
    assert f"stop it with Ctrl-C or kill {collector.process.pid}\n" in said
    collector.process.send_signal(signal.SIGINT)
    assert collector.process.wait(timeout=30) == 0
    assert "Shutdown complete" in collector.log()


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_it_listens_on_ipv6(run, address: str, tmp_path: Path):
    (port,) = free_ports(1)
    collector = run(
        "--role", "local", OTEL_RL_COLLECTOR_LISTEN=address, OTEL_RL_COLLECTOR_HEALTH_ENDPOINT=f"[::1]:{port}"
    )
    collector.health_url = f"http://[::1]:{port}/"
    collector.wait_until_ready()
    assert f"otlp http [::1]:{collector.http_port}, own metrics [::1]:{collector.metrics_port}\n" in collector.log()
    assert f"health {collector.health_url}\n" in collector.log()
    for path in ("ready", "status"):
        assert got(f"{collector.health_url}{path}").startswith('{\n  "status": "ok"')
    assert "otelcol_process_uptime" in got(f"http://[::1]:{collector.metrics_port}/metrics")
    grpc_port = collector.environment["OTEL_RL_COLLECTOR_GRPC_PORT"]
    said = problems_of_doctor(f"http://[::1]:{grpc_port}", tmp_path)
    assert [problem for problem in said if "::1" in problem] == []


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def problems_of_doctor(endpoint: str, folder: Path) -> list[str]:
    environ = {"PATH": str(Path(sys.executable).parent), "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    command = [sys.executable, "-c", COMMAND, "doctor", "--json"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60)
    return json.loads(done.stdout)["problems"]


def test_an_open_door_is_said_at_the_start(run):
    collector = run("--role", "local", OTEL_RL_COLLECTOR_LISTEN="0.0.0.0")  # noqa: S104
    collector.wait_until_ready()
    (warning,) = [line for line in collector.log().splitlines() if "otel-rl collector: warning: " in line]
    assert "without TLS and credentials" in warning
    assert "add --with tls token" in warning


def test_the_process_is_the_collector_itself_and_its_configuration_is_private(run, otelcol_rl: Path, tmp_path: Path):
    collector = run("--role", "local")
    collector.wait_until_ready()
    assert Path(f"/proc/{collector.process.pid}/exe").readlink() == otelcol_rl
    (configuration,) = tmp_path.glob("otel-rl-collector-*/local-*.yaml")
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600
    assert stat.S_IMODE(configuration.parent.stat().st_mode) == 0o700


def test_configurations_of_collectors_that_have_ended_are_cleared(run, tmp_path: Path):
    for _ in range(2):
        collector = run("--role", "local")
        collector.wait_until_ready()
        collector.stop()
    assert len(list(tmp_path.glob("otel-rl-collector-*/local-*.yaml"))) == 1


def test_a_taken_port_is_one_line_and_nothing_starts(run, otelcol_rl: Path, tmp_path: Path):
    folder = tmp_path / "first"
    folder.mkdir()
    with CollectorProcess(otelcol_rl, ["local.yaml"], folder) as first:
        second = run("--role", "local", OTEL_RL_COLLECTOR_HTTP_PORT=str(first.http_port))
        assert second.process.wait(timeout=30) == 2
    (line,) = second.log().splitlines()
    assert f"otlp http: cannot listen on 127.0.0.1:{first.http_port} (Address already in use)" in line
    assert line.endswith("stop what listens there or set OTEL_RL_COLLECTOR_HTTP_PORT")


def test_a_second_agent_on_one_queue_folder_is_one_line_and_nothing_starts(run, otelcol_rl: Path, tmp_path: Path):
    folder = tmp_path / "first"
    folder.mkdir()
    with CollectorProcess(otelcol_rl, ["agent.yaml"], folder) as first:
        queue = first.environment["OTEL_RL_COLLECTOR_QUEUE_DIR"]
        second = run("--role", "agent", OTEL_RL_COLLECTOR_QUEUE_DIR=queue)
        assert second.process.wait(timeout=30) == 2
    (line,) = second.log().splitlines()
    assert f"another collector uses the queue folder {queue}" in line
    assert "OTEL_RL_COLLECTOR_QUEUE_DIR" in line


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "300MiB"), ({"GOMEMLIMIT": "1GiB"}, "1GiB")], ids=["ours", "theirs"]
)
def test_the_garbage_collector_knows_the_memory_limit(run, given: dict[str, str], expected: str):
    collector = run("--role", "local", OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB="300", **given)
    collector.wait_until_ready()
    variables = Path(f"/proc/{collector.process.pid}/environ").read_text().split("\0")
    assert f"GOMEMLIMIT={expected}" in variables


def test_the_exit_code_of_a_collector_that_cannot_start_is_kept(run, tmp_path: Path):
    program = tmp_path / "otelcol-rl"
    program.write_text('#!/bin/sh\n[ "$1" = validate ] || exit 7\n')
    program.chmod(0o755)
    collector = run("--role", "local", OTEL_RL_COLLECTOR_BINARY=str(program))
    assert collector.process.wait(timeout=30) == 7
