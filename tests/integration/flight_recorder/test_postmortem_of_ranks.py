"""Real ranks over gloo, one of which stops: postmortem and report name it, after the job and while it hangs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main
from otel_rl.core import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
PROGRAM = """
import os, pathlib, signal, sys, time, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
message, waits = torch.ones(4), pathlib.Path("waits")
for number in range(1, 6):
    with otel_rl.step(number):
        with otel_rl.phase("train"):
            if "{how}" == "killed":
                # The curve of the memory has one value a second.
                otel_rl.flush(60)
                time.sleep(1)
            if number == 3 and dist.get_rank() == 0:
                waits.touch()
            if number == 3 and dist.get_rank() == 1:
                # When this rank ends, the agent ends the other one soon, which has to wait by then.
                while not waits.exists():
                    time.sleep(0.05)
                time.sleep(1)
                if "{how}" == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if "{how}" == "raised":
                    raise ValueError
                if "{how}" == "stuck":
                    signal.pause()
            try:
                dist.all_reduce(message)
            except RuntimeError:
                if "{how}" != "killed":
                    raise
                # Until the agent ends this rank too.
                time.sleep(1000)
dist.destroy_process_group()
"""


DDP_PROGRAM = """
import signal, torch, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
for number in range(1, 6):
    with otel_rl.step(number):
        loss = model(torch.ones(4)).sum()
        if number == 3 and dist.get_rank() == 1:
            signal.pause()
        with otel_rl.phase("train"):
            loss.backward()
"""
MONITORED_PROGRAM = """
import datetime, signal, otel_rl, torch.distributed as dist
dist.init_process_group("gloo")
for number in range(1, 4):
    with otel_rl.step(number):
        if number == 3 and dist.get_rank() == 1:
            with otel_rl.phase("reward"):
                while True:
                    signal.pause()
        with otel_rl.phase("train"):
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=3 if number == 3 else 60))
"""
#: Rank 1 stops before number 4 of a group that has the name and ranks of one before. Each group has a store of its own:
#: in the one of torchrun, torch 2.13 finds the addresses of the group before, and may connect to them or wait for ever.
REMADE_PROGRAM = """
import os, signal, torch, otel_rl, torch.distributed as dist
def train(first, last):
    store = dist.FileStore(f"store-{first}", 2)
    dist.init_process_group("gloo", store=store, rank=int(os.environ["RANK"]), world_size=2)
    for step in range(first, last):
        with otel_rl.step(step):
            if step == 24 and dist.get_rank() == 1:
                signal.pause()
            dist.all_reduce(torch.ones(4))
    dist.destroy_process_group()
train(1, 21)
train(21, 25)
"""


class Job:
    """torchrun under ``opentelemetry-instrument``."""

    def __init__(self, folder: Path, program: str, ranks: int = 2) -> None:
        self.folder, self.rings = folder, folder / "rings"
        self.rings.mkdir()
        (folder / "train.py").write_text(program)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        command = ("opentelemetry-instrument", "torchrun", "--standalone", f"--nproc-per-node={ranks}", "train.py")
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
def started(folder: Path, program: str, ranks: int = 2) -> Iterator[Job]:
    job = Job(folder, program, ranks)
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


def awaited(job: Job, capsys: pytest.CaptureFixture[str], is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What is found as soon as a rank waits and ``is_there``, while the job runs."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := _found(job, capsys)).get("waits") or not is_there(found):
        assert job.process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """After the job."""
    return _ended(tmp_path_factory.mktemp("killed"), "killed")


@pytest.fixture(scope="module")
def orderly(tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = _ended(tmp_path_factory.mktemp("orderly"), "in order")
    assert job.process.returncode == 0
    return job


def _ended(folder: Path, how: str) -> Job:
    with started(folder, PROGRAM.format(how=how)) as job:
        job.process.wait(TIMEOUT)
    return job


@pytest.fixture
def settings_of_the_other_tests() -> Iterator[None]:
    yield
    settings.reset()


def _page(job: Job, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(job.rings))
    settings.reset()
    assert main(["report", str(job.folder / "otel-rl"), "-o", str(job.folder / "page.html")]) == 0
    return " ".join((job.folder / "page.html").read_text(encoding="utf-8").split())


def _first_section(page: str) -> str:
    found = re.search(r'<section id="(\w+)">(.*?)</section>', page)
    assert found is not None
    return found[0]


def test_after_the_job_the_killed_rank_is_named_and_the_collective_that_it_did_not_enter(
    killed: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _found(killed, capsys)

    _assert_rank_1_is_named(found)
    assert not found["is_running"]
    assert killed.postmortem() == 0
    text = capsys.readouterr().out
    assert "all_reduce number 3 of group default_pg, which rank 1 did not enter" in text
    assert "rank 1 stopped first in step 3 (train) and did not enter all_reduce number 3 of group default_pg" in text
    assert "killed by SIGKILL (reported by torchrun's agent, pid" in text


def test_the_agent_tells_which_signal_killed_a_rank_and_that_it_ended_the_others(
    killed: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = _found(killed, capsys)["ranks"]

    assert (second["rank"], second["state"], second["exit"]["status"]) == (1, "gone", -9)
    assert second["exit"]["reported_by"] == "torchrun's agent"
    assert second["cause"] == f"killed by SIGKILL (reported by torchrun's agent, pid {second['exit']['reporting_pid']})"
    assert (first["rank"], first["exit"]["status"]) == (0, -15)
    assert "killed by SIGTERM (reported by torchrun's agent" in first["cause"]


@pytest.mark.usefixtures("settings_of_the_other_tests")
def test_a_killed_rank_is_the_first_thing_in_the_report_with_the_memory_of_the_ranks_up_to_the_end(
    killed: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _page(killed, monkeypatch)

    section = _first_section(page)
    assert section.startswith('<section id="ending">')
    assert "Rank 1 stopped first in step 3 (train) and did not enter all_reduce number 3 of group default_pg" in section
    assert "which rank 1 did not enter" in section
    _, drawing = section.split("Memory up to the end")
    assert "rank 0" in drawing
    assert "rank 1" in drawing
    findings = page[page.index('class="findings"') :]
    assert findings.index("Rank 1 stopped first in step 3") < findings.index("</section>")


def test_after_the_job_the_rank_that_raised_is_named_with_its_exception(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _found(_ended(tmp_path, "raised"), capsys)

    assert found["origins"] == [1]
    by_rank = {one["rank"]: one for one in found["ranks"]}
    assert (by_rank[1]["state"], by_rank[1]["cause"], by_rank[1]["step"]) == ("ended", "uncaught ValueError", 3)
    assert [(wait["rank"], wait["number"]) for wait in found["waits"]] == [(0, 3)]


def test_while_the_job_hangs_the_stuck_rank_is_named_and_the_collective_that_it_did_not_enter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, PROGRAM.format(how="stuck")) as job:
        # Rank 0 may wait for a moment in each step.
        found = awaited(job, capsys, lambda now: [one["step"] for one in now["ranks"]] == [3, 3])
        assert job.postmortem() == 0
        text = capsys.readouterr().out

    _assert_rank_1_is_named(found)
    assert found["is_running"]
    assert {one["rank"]: one["state"] for one in found["ranks"]} == {0: "running", 1: "running"}
    assert "rank 0 waits in all_reduce number 3 of group default_pg, which rank 1 did not enter" in text
    assert "rank 1 is stuck in step 3 (train) and did not enter all_reduce number 3" in text


def test_a_rank_that_ddp_waits_for_in_its_backward_pass_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, DDP_PROGRAM) as job:
        found = awaited(job, capsys, lambda now: [one["step"] for one in now["ranks"]] == [3, 3])

    assert found["origins"] == [1]
    (wait,) = found["waits"]
    assert (wait["rank"], wait["for_rank"], wait["operation"]) == (0, 1, "all_reduce")
    by_rank = {one["rank"]: one for one in found["ranks"]}
    assert by_rank[0]["inside"] == ["train"]
    assert by_rank[1]["collective"]["number"] == wait["number"] - 1


def test_the_rank_that_did_not_enter_a_collective_of_a_group_that_was_made_again_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, REMADE_PROGRAM) as job:
        found = awaited(job, capsys, lambda now: [one["step"] for one in now["ranks"]] == [24, 24])

    assert found["origins"] == [1]
    (wait,) = found["waits"]
    assert (wait["rank"], wait["for_rank"], wait["number"], wait["group_generation"]) == (0, 1, 4, 2)


def test_after_a_monitored_barrier_that_failed_the_rank_that_hung_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, MONITORED_PROGRAM) as job:
        job.process.wait(TIMEOUT)
    found = _found(job, capsys)

    assert (found["origins"], found["not_known"]) == ([1], [])
    (wait,) = found["waits"]
    assert (wait["rank"], wait["for_rank"], wait["operation"], wait["number"]) == (0, 1, "barrier", 3)
    assert wait["outcome"] == "failed"
    (sentence,) = found["verdict"]
    assert sentence.startswith("rank 1 was stuck in step 3 (reward) and did not enter barrier number 3")


def test_ranks_that_end_in_order_leave_a_copy_in_the_run_folder_and_nothing_in_memory(
    orderly: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _found(orderly, capsys)

    assert list(orderly.rings.iterdir()) == []
    assert len(list(orderly.folder.glob("otel-rl/run/*/flight.ring"))) == 2
    assert [one["state"] for one in found["ranks"]] == ["ended", "ended"]
    assert [one["step"] for one in found["ranks"]] == [5, 5]
    assert found["waits"] == []


@pytest.mark.usefixtures("settings_of_the_other_tests")
def test_the_report_of_a_run_that_ended_in_order_has_no_section_of_its_ending(
    orderly: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _page(orderly, monkeypatch)

    assert 'id="ending"' not in page
    assert "No flight recorder shows a process that failed" in page
