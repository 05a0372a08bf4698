"""A real job that hangs, and is killed, as the rules see it in a real Prometheus."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_server import Prometheus

from dashboards.rules.runs import RANK_GONE, RUN_HUNG, RUN_SILENT, SILENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dashboards.lib.rules import AlertRule

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 600
#: Instead of the minutes after which a run counts as silent.
SECONDS = 5
#: Rank 1 does not come to the eighth collective until the file `go` is there.
PROGRAM = """
import os, pathlib, time, otel_rl, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
pathlib.Path(f"rank{rank}").write_text(str(os.getpid()))
number = 0
while not pathlib.Path("end").exists():
    number += 1
    with otel_rl.step(number):
        while number == 8 and rank == 1 and not pathlib.Path("go").exists():
            time.sleep(0.05)
        dist.all_reduce(torch.ones(4))
        time.sleep(0.05)
"""


class Job:
    """Two ranks over gloo that export metrics to Prometheus each second."""

    def __init__(self, folder: Path, server: Prometheus, run: str) -> None:
        self.folder, self.server, self.run = folder, server, run
        (folder / "train.py").write_text(PROGRAM)
        settings = {
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{server.address}/api/v1/otlp/v1/metrics",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "OTEL_RL_HANG_SECONDS": "2",
            "OTEL_RL_RUN_ID": run,
        }
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        command = ("opentelemetry-instrument", "torchrun", "--standalone", "--nproc-per-node=2", "train.py")
        self.process = subprocess.Popen(
            [SCRIPTS / command[0], SCRIPTS / command[1], *command[2:]],
            cwd=folder,
            env={**environ, **settings, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
            stdout=subprocess.DEVNULL,
            stderr=(folder / "stderr").open("wb"),
        )

    def fires(self, alert: AlertRule, expression: str = "") -> bool:
        """Whether the expression of the alert gives a series of this run now."""
        found = self.server.query(expression or alert.expr)
        return any(series["metric"].get("rl_run_id") == self.run for series in found)

    def kill(self, rank: int) -> None:
        os.kill(int((self.folder / f"rank{rank}").read_text()), signal.SIGKILL)

    def awaited(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not is_so():
            assert time.monotonic() < deadline, (self.folder / "stderr").read_text()
            time.sleep(0.2)


@pytest.fixture
def job(prometheus_programs: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    for name in ("server", "job"):
        (tmp_path / name).mkdir()
    with Prometheus(prometheus_programs / "prometheus", tmp_path / "server") as server:
        job = Job(tmp_path / "job", server, request.node.name)
        try:
            yield job
        finally:
            job.process.terminate()
            job.process.wait(TIMEOUT)


def sooner(alert: AlertRule) -> str:
    """The expression of an alert about silence, for tests that do not wait for minutes."""
    return alert.expr.replace(f"> {SILENT}", f"> {SECONDS}")


def test_a_collective_to_which_a_rank_does_not_come_is_a_hang_of_the_run_until_it_comes(job: Job) -> None:
    job.awaited(lambda: job.fires(RUN_HUNG))
    assert not job.fires(RUN_SILENT, sooner(RUN_SILENT))
    (job.folder / "go").touch()
    job.awaited(lambda: not job.fires(RUN_HUNG))
    (job.folder / "end").touch()
    assert job.process.wait(TIMEOUT) == 0
    # Longer than an end would have to be missing.
    job.awaited(lambda: job.server.query(f'rl:run:silence_seconds{{rl_run_id="{job.run}"}} > {2 * SECONDS}'))
    assert not job.fires(RUN_SILENT, sooner(RUN_SILENT))
    assert not job.fires(RANK_GONE)


def test_ranks_that_are_all_killed_at_once_are_a_silent_run(job: Job) -> None:
    job.awaited(lambda: job.fires(RUN_HUNG))
    # The launcher must not end one in order because of the other.
    job.process.send_signal(signal.SIGSTOP)
    for rank in (0, 1):
        job.kill(rank)
    job.process.send_signal(signal.SIGCONT)
    assert job.process.wait(TIMEOUT) != 0
    job.awaited(lambda: job.fires(RUN_SILENT, sooner(RUN_SILENT)))
