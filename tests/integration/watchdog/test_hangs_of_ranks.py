"""Real ranks over gloo: a hang is reported while it lasts, by every rank, and slow but healthy ranks report nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_rl.ranks.postmortem import examine
from otel_rl.ranks.postmortem.text import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.ranks.postmortem import Postmortem

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
STATUS = "rl.run.end.status"
PROGRAM = """
import ctypes, os, pathlib, signal, time, torch, otel_rl, torch.distributed as dist

def awaited(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.05)

def take_long(number):
    if number == 4:
        time.sleep(5)  # one of the first steps
    if number == 8:
        for part in range(10):
            with otel_rl.phase("reward"):
                time.sleep(0.5)
    # In the last of them no call tells whether an engine inside the process goes on.
    phase = {{10: "checkpoint", 12: "evaluate", 14: "sample"}}.get(number)
    if phase:
        with otel_rl.phase(phase):
            time.sleep(5)

def hang(number):
    if number == 16:
        awaited("go")
    if number == 17:
        # A phase that may be long, until the test has read what was told of the step before.
        with otel_rl.phase("evaluate"):
            awaited("stop")
        os.kill(os.getpid(), signal.SIGSTOP)
    if number == 18:
        awaited("never")

def hold_the_gil(until):
    # A call that waits for a shell without giving the GIL away.
    ctypes.PyDLL(None).system(f"until [ -e {{until}} ]; do sleep 0.05; done".encode())

dist.init_process_group("gloo")
rank, message = dist.get_rank(), torch.ones(4)
for number in range(1, 19):
    with otel_rl.step(number):
        with otel_rl.phase("train"):
            {what}
            dist.all_reduce(message)
dist.destroy_process_group()
"""

#: A loop that marks no steps: they are guessed, and what comes before the backward pass lies in none of them.
UNMARKED = """
import pathlib, time, torch, otel_rl, torch.distributed as dist

def awaited(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.05)

@otel_rl.tool("environment")
def act():
    time.sleep(0.1)

def make_rollouts(number):
    # Rank 1 has longer ones, as happens: what rank 0 did before was long too, or short.
    for _ in range({{7: (20, 70), 8: (1, 50)}}.get(number, (1, 1))[rank]):
        act()

def gather_results(number):
    if number == 9:
        if rank == 0:
            time.sleep(7)  # as if it evaluated alone
        dist.gather_object(number, [None, None] if rank == 0 else None)

dist.init_process_group("gloo")
rank, message, parts = dist.get_rank(), torch.ones(4), [torch.zeros(4) for _ in range(2)]
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(1, 14):
    {what}
    dist.all_gather(parts, message)
    optimizer.zero_grad()
    model(parts[0]).sum().backward()
    optimizer.step()
if rank == 0:
    time.sleep(7)  # as if it wrote a file of results
dist.barrier()
dist.destroy_process_group()
"""


class Job:
    """torchrun under ``opentelemetry-instrument``."""

    def __init__(self, folder: Path, what: str, program: str = PROGRAM, **variables: str) -> None:
        self.folder, self.rings = folder, folder / "rings"
        self.rings.mkdir()
        (folder / "train.py").write_text(program.format(what=what))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        settings = {
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING": "on",
            "OTEL_RL_RING_DIR": str(self.rings),
            "OTEL_RL_HANG_SECONDS": "2",
            **variables,
        }
        command = ("opentelemetry-instrument", "torchrun", "--standalone", "--nproc-per-node=2", "train.py")
        with (folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [SCRIPTS / command[0], SCRIPTS / command[1], *command[2:]],
                cwd=folder,
                env={**environ, **settings},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def lines(self) -> list[str]:
        """What the watchdogs have written to standard error."""
        lines = (self.folder / "stderr").read_text().splitlines()
        return sorted(line for line in lines if "without progress" in line or "no progress" in line)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Attributes of the events ``name`` on disk, with the body."""
        found = []
        for file in self.folder.glob("otel-rl/run/*/logs*.jsonl"):
            for line in file.read_text().splitlines():
                # The last line may be half written.
                if line.endswith("}"):
                    found += [
                        _event(record) for record in _records(json.loads(line)) if record.get("eventName") == name
                    ]
        return sorted(found, key=lambda event: event["rl.rank"])

    def values(self, metric: str) -> dict[str, list[tuple[int, str | None]]]:
        """Each rank's exported values of a gauge, oldest first, with the status of an end."""
        found: dict[str, list[tuple[int, str | None]]] = {}
        for file in sorted(self.folder.glob("otel-rl/run/*/metrics*.jsonl")):
            for line in file.read_text().splitlines():
                if line.endswith("}"):
                    for rank, point in _points(json.loads(line), metric):
                        found.setdefault(rank, []).append((int(point["asInt"]), _attributes(point).get(STATUS)))
        return found

    def postmortem(self) -> Postmortem:
        return examine(self.folder / "otel-rl", self.rings)

    def cause_of_rank_1(self) -> str:
        return next(one.cause for one in self.postmortem().ranks if one.ring.rank == 1)

    def signal_rank_1(self, number: signal.Signals) -> None:
        os.kill(next(one.ring.lifetime.pid for one in self.postmortem().ranks if one.ring.rank == 1), number)


def _records(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in line["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            yield from scope["logRecords"]


def _points(line: dict[str, Any], metric: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for resource in line["resourceMetrics"]:
        for scope in resource["scopeMetrics"]:
            for one in (one for one in scope["metrics"] if one["name"] == metric):
                for point in one["gauge"]["dataPoints"]:
                    yield _attributes(resource["resource"])["rl.rank"], point


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in item.get("attributes", ())}


def _event(record: dict[str, Any]) -> dict[str, Any]:
    return {
        **_attributes(record),
        "body": record.get("body", {}).get("stringValue"),
        "severity": record["severityText"],
    }


@contextmanager
def started(folder: Path, what: str, **variables: str) -> Iterator[Job]:
    job = Job(folder, what, **variables)
    try:
        yield job
    finally:
        job.process.terminate()
        job.process.wait(TIMEOUT)


def _await(job: Job, is_there: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not is_there():
        assert job.process.poll() is None, (job.folder / "stderr").read_text()
        assert time.monotonic() < deadline, (job.folder / "stderr").read_text()
        time.sleep(0.2)


class Watched(NamedTuple):
    """What a job told while its ranks were slow, then while one hung, was stopped and hung again, until its end."""

    #: Of step 16, while rank 1 hangs and when that is over.
    hangs: list[dict[str, Any]]
    ends: list[dict[str, Any]]
    lines: list[str]
    #: Of the whole job.
    all_hangs: list[dict[str, Any]]
    hanging: dict[str, list[tuple[int, str | None]]]
    ended: dict[str, list[tuple[int, str | None]]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    variables = {"OTEL_RL_HANG_SECONDS": "3", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
    with started(folder, "take_long(number), rank == 1 and hang(number)", **variables) as job:
        _await(job, lambda: len(job.events("rl.hang")) == 2)
        _await_exports_of_a_hang(job)
        hangs = job.events("rl.hang")
        (folder / "go").touch()
        _await(job, lambda: len(job.events("rl.hang.end")) == 2)
        ends, lines = job.events("rl.hang.end"), job.lines()
        (folder / "stop").touch()
        _await(job, lambda: len(job.events("rl.hang")) == 3)
        _await(job, lambda: "it is stopped by a signal (SIGSTOP)" in job.cause_of_rank_1())
        job.signal_rank_1(signal.SIGCONT)
        _await(job, lambda: len(job.events("rl.hang")) == 5)
        _await_exports_of_a_hang(job)
    return Watched(hangs, ends, lines, job.events("rl.hang"), job.values("rl.hang.active"), job.values("rl.run.ended"))


def _await_exports_of_a_hang(job: Job) -> None:
    """Wait until both ranks have exported that they hang, thrice: once is no proof that the periodic export goes on."""

    def all_see_a_hang() -> bool:
        values = job.values("rl.hang.active")
        return len(values) == 2 and all(exported[-3:] == [(1, None)] * 3 for exported in values.values())

    _await(job, all_see_a_hang)


def test_every_rank_reports_a_hang_while_it_lasts_and_that_it_is_over(watched: Watched) -> None:
    waits, hangs = watched.hangs
    assert waits["torch.distributed.operation"] == "all_reduce"
    assert waits["torch.distributed.group.name"] == "default_pg"
    assert waits["torch.distributed.sequence_number"] == "16"
    assert "torch.distributed.operation" not in hangs
    for event in (waits, hangs):
        assert (event["rl.loop.iteration"], event["rl.phase"], event["severity"]) == ("16", "train", "ERROR")
        assert event["rl.hang.duration"] >= event["rl.hang.limit"] == 3.0
    assert 'train.py", line' in waits["body"]
    assert "in all_reduce" in waits["body"]
    assert "in awaited" in hangs["body"]
    assert [event["rl.rank"] for event in watched.ends] == ["0", "1"]
    assert all(event["rl.hang.duration"] >= 3 for event in watched.ends)
    first, first_over, second, second_over = sorted(
        watched.lines, key=lambda line: (line.split()[2], "goes on" in line)
    )
    assert first.startswith("otel-rl: rank 0 may hang: no progress for")
    assert "in step 16 (train), waits in all_reduce number 16 of group default_pg; `otel-rl postmortem`" in first
    assert first_over.startswith("otel-rl: rank 0 goes on after")
    assert second.startswith("otel-rl: rank 1 may hang: no progress for")
    assert "waits in" not in second
    assert second_over.startswith("otel-rl: rank 1 goes on after")


def test_ranks_that_are_slow_or_in_a_phase_that_may_be_long_report_nothing(watched: Watched) -> None:
    assert {event["rl.loop.iteration"] for event in watched.all_hangs} == {"16", "17", "18"}


def test_a_rank_that_was_stopped_is_told_and_does_not_take_that_for_a_hang(watched: Watched) -> None:
    assert [event["rl.rank"] for event in watched.all_hangs if event["rl.loop.iteration"] == "17"] == ["0"]


def test_ranks_that_are_stopped_in_a_hang_leave_no_gauge_that_says_hang(watched: Watched) -> None:
    for rank in ("0", "1"):
        assert watched.hanging[rank][-1] == (0, None)
        assert watched.ended[rank][-1] == (1, "stopped")


class Guessed(NamedTuple):
    """What a job without marked steps told while one rank waited for the other, and until its end."""

    hangs: list[dict[str, Any]]
    job: Job


@pytest.fixture(scope="module")
def guessed(tmp_path_factory: pytest.TempPathFactory) -> Guessed:
    folder = tmp_path_factory.mktemp("guessed")
    what = "make_rollouts(number), gather_results(number), number == 12 and rank == 1 and awaited('go')"
    with started(folder, what, program=UNMARKED, OTEL_METRIC_EXPORT_INTERVAL="500") as job:
        _await(job, lambda: len(job.events("rl.hang")) == 2)
        hangs = job.events("rl.hang")
        (folder / "go").touch()
        assert job.process.wait(TIMEOUT) == 0
    return Guessed(hangs, job)


def test_a_hang_before_a_collective_between_guessed_steps_is_reported_by_every_rank(guessed: Guessed) -> None:
    waits, hangs = guessed.hangs
    for event in (waits, hangs):
        assert (event["rl.loop.iteration"], event["severity"]) == ("11", "ERROR")
    # Two of the numbers are those of the gather.
    assert "after step 11, waits in all_gather number 14 of group default_pg" in waits["body"]
    assert "after step 11; rank 0 waits for it in all_gather number 14 of group default_pg" in hangs["body"]
    assert "in awaited" in hangs["body"]


def test_longer_rollouts_a_gather_of_objects_and_a_barrier_at_the_end_are_no_hang(guessed: Guessed) -> None:
    assert guessed.job.events("rl.hang") == guessed.hangs
    assert len(guessed.job.events("rl.hang.end")) == 2


def test_the_gauge_of_each_rank_goes_back_after_a_hang_and_the_run_ends_as_completed(guessed: Guessed) -> None:
    for rank in ("0", "1"):
        assert guessed.job.values("rl.hang.active")[rank][-1] == (0, None)
        assert guessed.job.values("rl.run.ended")[rank][0] == (0, None)
        assert guessed.job.values("rl.run.ended")[rank][-1] == (1, "completed")


def test_a_rank_that_holds_the_gil_is_told_by_its_heartbeat_and_its_exit_as_a_failed_collective(tmp_path: Path) -> None:
    # With status 0 of the rank that leaves, torchrun ends no other. Longer than the silence of a peer worth a word.
    what = "if number == 8 and rank == 1: hold_the_gil('go'), os._exit(0)"
    with started(tmp_path, what, OTEL_RL_HANG_SECONDS="12") as job:
        _await(job, lambda: job.events("rl.hang"))
        cause, text = job.cause_of_rank_1(), as_text(job.postmortem())
        (tmp_path / "go").touch()
        job.process.wait(TIMEOUT)
    (event,) = job.events("rl.hang")
    assert event["rl.rank"] == "0"
    assert "; rank 1 gave no heartbeat for" in event["body"].splitlines()[0]
    assert "it may hold the GIL" in cause
    assert "rank 1 is stuck in step 8 (train) and did not enter all_reduce number 8" in text
    [over] = [line for line in job.lines() if line.startswith("otel-rl: all_reduce")]
    assert over.startswith("otel-rl: all_reduce number 8 of group default_pg failed in rank 0 after")
    assert not [line for line in job.lines() if "rank 0 goes on" in line]
    assert over.removeprefix("otel-rl: ") in [event["body"] for event in job.events("rl.hang.end")]
