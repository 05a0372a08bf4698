"""Programs whose store files are full again and again: compressed, followed, killed, and each record there once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from process_support import INSTRUMENT, Programs

from otel_rl.store.reader import Log, Reader, find_run
from otel_rl.store.reader.following import FollowingReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from otel_rl.store.reader.records import Record

#: Numbers its records, and goes on until a file of its own of each signal is compressed; says each flush.
PROGRAM = """
import glob, itertools, os, sys, otel_rl
from opentelemetry import trace
ends = "--ends" in sys.argv
for number in itertools.count():
    with otel_rl.step(number):
        for sample in range(10):
            with otel_rl.rollout(f"{number}-{sample}", sample_id=sample):
                with otel_rl.tool("calculate"): pass
                otel_rl.reward("right", sample / 10)
        otel_rl.event("numbered", {"number": number})
        # In the step: copies are made of its rows.
        otel_rl.flush(30)
    print(number, flush=True)
    found = [os.path.basename(name) for name in glob.glob(f"otel-rl/*/*-pid{os.getpid()}-*/*.jsonl.gz")]
    streams = {name.split("-0")[0] for name in found}
    if ends and streams >= {"traces", "logs", "logs-pending"} and len(found) > 9:
        break
"""
SMALL = {"OTEL_RL_FILE_MAX_BYTES": "20KB", "OTEL_RL_RUN_ID": "small"}


def _started(programs: Programs, *arguments: str) -> subprocess.Popen[str]:
    command = [INSTRUMENT, sys.executable, programs.write("program.py", PROGRAM), *arguments]
    environ = {**programs.environ, **SMALL}
    return subprocess.Popen(command, cwd=programs.directory, env=environ, stdout=subprocess.PIPE, text=True)


def _numbers(records: Iterable[Record]) -> Counter[int]:
    return Counter(
        int(record.body["number"]) for record in records if isinstance(record, Log) and record.event == "numbered"
    )


def _compressed(root: Path) -> list[Path]:
    return sorted(root.glob("*/*/*.jsonl.gz"))


def _otel_rl(programs: Programs, *arguments: str) -> str:
    done = programs.otel_rl(*arguments)
    assert done.code == 0, done.err
    return done.out


def test_all_commands_read_what_was_compressed(programs: Programs) -> None:
    done = programs.instrumented(PROGRAM, "--ends", **SMALL)
    assert done.code == 0, done.err
    steps = int(done.out.split()[-1]) + 1

    assert len(_compressed(programs.store.root)) > 9
    assert not list(programs.store.root.glob("*/*/.*.part"))
    assert "cannot be read" not in done.err
    reader = Reader(find_run(programs.store.root))
    assert _numbers(reader.records()) == Counter(range(steps))
    rows = [json.loads(line) for line in _otel_rl(programs, "trajectories", "otel-rl").splitlines()]
    assert Counter(row["rl.rollout.id"] for row in rows) == Counter(
        f"{step}-{sample}" for step in range(steps) for sample in range(10)
    )
    logs = _otel_rl(programs, "logs", "otel-rl", "--last", "0", "--events")
    assert logs.count("numbered") == steps
    run = json.loads(_otel_rl(programs, "runs", "otel-rl", "--json"))
    assert (run["state"], run["step"]) == ("in order", steps - 1)
    report = json.loads(_otel_rl(programs, "report", "otel-rl", "--json"))
    assert report["trajectories"]["ended"] == 10 * steps


def test_whoever_follows_the_run_gets_each_record_once(programs: Programs) -> None:
    process = _started(programs, "--ends")
    assert process.stdout is not None
    process.stdout.readline()
    reader = FollowingReader(find_run(programs.store.root))
    seen = _numbers(reader.appended())
    last = 0
    for line in process.stdout:
        last = int(line)
        seen += _numbers(reader.appended())
    assert process.wait() == 0
    reader._look()
    seen += _numbers(reader.appended())

    assert _compressed(programs.store.root)
    assert seen == Counter(range(last + 1))
    assert not reader.problems.errors


@pytest.mark.parametrize("moment", range(4))
def test_a_kill_leaves_each_record_once(programs: Programs, moment: int) -> None:
    process = _started(programs)
    assert process.stdout is not None
    flushed = -1
    for line in process.stdout:
        flushed = int(line)
        if len(_compressed(programs.store.root)) > moment:
            break
    process.kill()
    process.wait()

    reader = Reader(find_run(programs.store.root))
    numbers = _numbers(reader.records())
    assert set(numbers.values()) == {1}
    assert set(numbers) >= set(range(flushed + 1))
    assert sorted(numbers) == list(range(len(numbers)))
    assert not reader.problems.errors


def test_a_child_of_a_fork_has_files_of_its_own(programs: Programs) -> None:
    forking = PROGRAM.replace("    print(number", "    if number == 3: os.fork()\n    print(number")
    done = programs.instrumented(forking, "--ends", **SMALL, OTEL_RL_CHILDREN="all")
    assert done.code == 0, done.err

    folders = programs.store.directories
    assert len(folders) == 2
    for folder in folders:
        numbers = _numbers(Reader(find_run(folder)).records())
        assert set(numbers.values()) == {1}
        assert sorted(numbers) == list(range(min(numbers), max(numbers) + 1))
