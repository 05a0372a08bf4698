"""Real ranks over gloo, one of which stops: `otel-rl postmortem` names it, after the job and while it hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 120
PROGRAM = """
import os, signal, sys, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
message = torch.ones(4)
for number in range(1, 6):
    with otel_rl.step(number):
        with otel_rl.phase("train"):
            if number == 3 and dist.get_rank() == 1:
                if "{how}" == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if "{how}" == "stuck":
                    signal.pause()
            dist.all_reduce(message)
dist.destroy_process_group()
"""


class Job:
    """torchrun with two ranks under ``opentelemetry-instrument``."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.rings = folder, folder / "rings"
        self.rings.mkdir()
        (folder / "train.py").write_text(PROGRAM.format(how=how))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        command = ("opentelemetry-instrument", "torchrun", "--standalone", "--nproc-per-node=2", "train.py")
        self.process = subprocess.Popen(
            [SCRIPTS / command[0], SCRIPTS / command[1], *command[2:]],
            cwd=folder,
            env={**environ, "OTEL_RL_RUN_ID": "run", "OTEL_RL_RING_DIR": str(self.rings)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def postmortem(self, *options: str) -> int:
        return main(["postmortem", str(self.folder / "otel-rl"), "--ring-dir", str(self.rings), *options])


@contextmanager
def started(folder: Path, how: str) -> Iterator[Job]:
    job = Job(folder, how)
    try:
        yield job
    finally:
        # The agent hands SIGTERM on to the ranks.
        job.process.terminate()
        job.process.wait(TIMEOUT)


def _found(job: Job, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    if job.postmortem("--json") != 0:
        capsys.readouterr()
        return {}
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _assert_rank_1_is_named(found: dict[str, Any]) -> None:
    assert found["origins"] == [1]
    (wait,) = found["waits"]
    assert (wait["rank"], wait["for_rank"]) == (0, 1)
    assert (wait["operation"], wait["number"], wait["group_description"]) == ("all_reduce", 3, "default_pg")
    by_rank = {one["rank"]: one for one in found["ranks"]}
    assert (by_rank[1]["step"], by_rank[1]["step_is_open"], by_rank[1]["inside"]) == (3, True, ["train"])
    assert by_rank[1]["collective"]["number"] == 2
    assert by_rank[0]["step"] == 3


def test_after_the_job_the_killed_rank_is_named_and_the_collective_that_it_did_not_enter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "killed") as job:
        job.process.wait(TIMEOUT)
    found = _found(job, capsys)

    _assert_rank_1_is_named(found)
    assert not found["is_running"]
    assert {one["rank"]: one["state"] for one in found["ranks"]}[1] == "gone"
    assert job.postmortem() == 0
    text = capsys.readouterr().out
    assert "all_reduce number 3 of group default_pg, which rank 1 did not enter" in text
    assert "rank 1 stopped first: it is gone without an orderly end" in text


def test_while_the_job_hangs_the_stuck_rank_is_named_and_the_collective_that_it_did_not_enter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "stuck") as job:
        deadline = time.monotonic() + TIMEOUT
        while not (found := _found(job, capsys)).get("waits"):
            assert job.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        # Rank 0 may wait for a moment in each step.
        while found["ranks"][0]["step"] != 3 or found["ranks"][1]["step"] != 3 or not found["waits"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
            found = _found(job, capsys)
        assert job.postmortem() == 0
        text = capsys.readouterr().out

    _assert_rank_1_is_named(found)
    assert found["is_running"]
    assert {one["rank"]: one["state"] for one in found["ranks"]} == {0: "running", 1: "running"}
    assert "rank 0 waits in all_reduce number 3 of group default_pg, which rank 1 did not enter" in text
    assert "rank 1 is stuck: it runs, in step 3 (train)" in text


def test_ranks_that_end_in_order_leave_a_copy_in_the_run_folder_and_nothing_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "not") as job:
        assert job.process.wait(TIMEOUT) == 0
    found = _found(job, capsys)

    assert list(job.rings.iterdir()) == []
    assert len(list(tmp_path.glob("otel-rl/run/*/flight.ring"))) == 2
    assert [one["state"] for one in found["ranks"]] == ["ended", "ended"]
    assert [one["step"] for one in found["ranks"]] == [5, 5]
    assert found["waits"] == []
