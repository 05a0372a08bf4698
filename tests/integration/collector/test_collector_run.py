"""`otel-rl collector run` is the collector: its process, its signals, its exit code, and first lines that say where."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from collector_process import CollectorProcess, wait_for
from loopback_ports import free_ports
from otlp import span, trace_resource
from support.engine_metrics import VLLM, Engine

from otel_rl.store.reader import find_run

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
    assert collector.process.wait(timeout=300) == 0
    assert "Shutdown complete" in collector.log()


def test_without_any_engine_it_waits_for_a_job_to_list_one(run, tmp_path: Path):
    collector = run("--role", "local", "--with", "engine-metrics")
    collector.wait_until_ready()
    assert (tmp_path / "otel-rl" / "engine-targets").is_dir()
    with Engine(VLLM) as engine:
        listed = tmp_path / "otel-rl" / "engine-targets" / "job.json"
        listed.with_suffix(".new").write_text(json.dumps([{"targets": [engine.address]}]))
        listed.with_suffix(".new").replace(listed)
        wait_for(lambda: engine.scrapes, "a scrape")
    assert "\terror\t" not in collector.log()


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
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300)
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
        assert second.process.wait(timeout=300) == 2
    (line,) = second.log().splitlines()
    assert f"otlp http: cannot listen on 127.0.0.1:{first.http_port} (Address already in use)" in line
    assert line.endswith("stop what listens there or set OTEL_RL_COLLECTOR_HTTP_PORT")


def test_a_second_agent_on_one_queue_folder_is_one_line_and_nothing_starts(run, otelcol_rl: Path, tmp_path: Path):
    folder = tmp_path / "first"
    folder.mkdir()
    with CollectorProcess(otelcol_rl, ["agent.yaml"], folder) as first:
        queue = first.environment["OTEL_RL_COLLECTOR_QUEUE_DIR"]
        second = run("--role", "agent", OTEL_RL_COLLECTOR_QUEUE_DIR=queue)
        assert second.process.wait(timeout=300) == 2
    (line,) = second.log().splitlines()
    assert f"another collector uses the queue folder {queue}" in line
    assert "OTEL_RL_COLLECTOR_QUEUE_DIR" in line


def numbered(first: int) -> list[dict[str, Any]]:
    return [trace_resource([span(f"span {number}") for number in range(first, first + 100)])]


def names_in(folder: Path) -> list[str]:
    lines = (line for file in folder.rglob("traces*.jsonl") for line in file.read_text().splitlines())
    groups = (scope for line in lines for group in json.loads(line)["resourceSpans"] for scope in group["scopeSpans"])
    return sorted(span["name"] for group in groups for span in group["spans"])


def test_two_jobs_beside_each_other_lose_nothing_and_leave_one_report(run, tmp_path: Path):
    collectors = []
    for _ in range(2):
        collectors.append(run("--role", "local", OTEL_RL_COLLECTOR_DATA_DIR=""))
        collectors[-1].wait_until_ready()
    for first in range(0, 1000, 100):
        for number, collector in enumerate(collectors):
            collector.send("traces", numbered(10_000 * number + first))
    output = tmp_path / "otel-rl" / "collector"
    of_processes = {int(folder.name.rpartition("-")[2]): folder for folder in output.iterdir()}
    assert set(of_processes) == {collector.process.pid for collector in collectors}
    last = of_processes[collectors[-1].process.pid].relative_to(tmp_path)
    assert f"otel-rl collector: writes into {last}\n" in collectors[-1].log()
    assert names_in(output) == sorted(f"span {10_000 * job + number}" for job in range(2) for number in range(1000))
    read = [file.path.parent for file in find_run(tmp_path / "otel-rl").files if file.signal == "traces"]
    assert set(read) == set(of_processes.values())


def test_a_second_collector_on_one_data_folder_does_not_start_until_the_first_has_ended(
    run, otelcol_rl: Path, tmp_path: Path
):
    shared = {"OTEL_RL_COLLECTOR_DATA_DIR": str(tmp_path / "shared")}
    (tmp_path / "first").mkdir()
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path / "first", shared) as first:
        first.send("traces", numbered(0))
        second = run("--role", "local", **shared)
        assert second.process.wait(timeout=300) == 2
        (line,) = second.log().splitlines()
        assert f"writes into {tmp_path}/shared (process {first.process.pid} on " in line
        assert line.endswith("set OTEL_RL_COLLECTOR_DATA_DIR to a folder of its own for each")
        bare = CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path, shared)
        with pytest.raises(AssertionError, match=rf"in use by process {first.process.pid} on "), bare:
            pass
        first.process.kill()
        first.process.wait()
    again = run("--role", "local", **shared)
    again.wait_until_ready()
    again.send("traces", numbered(100))
    assert names_in(tmp_path / "shared") == sorted(f"span {number}" for number in range(200))


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
    assert collector.process.wait(timeout=300) == 7
