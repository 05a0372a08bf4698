"""A data directory that cannot be written, is full, or has reached its bound: one line, and the job goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from process_support import ONE_SPAN, Programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY_SPANS = """
from opentelemetry import trace
for number in range(400):
    trace.get_tracer("t").start_span("s", attributes={"text": "x" * 1000}).end()
    if number % 50 == 49: trace.get_tracer_provider().force_flush()
print("finished")
"""


def test_data_directory_that_is_a_file(programs: Programs) -> None:
    programs.write("taken", "mine")
    done = programs.instrumented(ONE_SPAN + "print('finished')", OTEL_RL_DATA_DIR="taken")

    assert (done.code, done.out) == (0, "finished\n")
    (line,) = done.err.splitlines()
    assert "cannot write to" in line
    assert "set OTEL_RL_DATA_DIR" in line
    assert (programs.directory / "taken").read_text() == "mine"


def test_data_directory_without_permission(programs: Programs) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (programs.directory / "locked").mkdir(mode=0o500)
    done = programs.instrumented(ONE_SPAN, OTEL_RL_DATA_DIR="locked/otel-rl")

    assert done.code == 0
    assert "Permission denied" in done.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    directory = tmp_path / "small"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", directory], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


def test_full_disk_costs_one_line_keeps_whole_lines_and_counts_the_rest(programs: Programs, small_disk: Path) -> None:
    done = programs.instrumented(MANY_SPANS, OTEL_RL_DATA_DIR=str(small_disk / "otel-rl"), OTEL_RL_QUIET="1")

    assert (done.code, done.out) == (0, "finished\n")
    (line,) = done.err.splitlines()
    assert "No space left" in line
    files = list((small_disk / "otel-rl").rglob("*.jsonl"))
    assert files
    for file in files:
        assert file.read_bytes().endswith(b"}\n") or file.stat().st_size == 0


def test_bound_of_the_process_is_kept_and_what_comes_after_is_counted(programs: Programs) -> None:
    done = programs.instrumented(MANY_SPANS, OTEL_RL_DATA_MAX_BYTES="200KB", OTEL_RL_FILE_MAX_BYTES="70KB")

    assert (done.code, done.out) == (0, "finished\n")
    assert "OTEL_RL_DATA_MAX_BYTES=200000" in done.err.splitlines()[0]
    files = sorted(programs.store.directories[0].glob("*.jsonl*"))
    assert sum(file.stat().st_size for file in files) <= 200_000
    assert len([file for file in files if file.name.startswith("traces-")]) >= 2
    dropped = programs.store.manifests()[0]["dropped"]["traces"]["store_full"]
    assert len(programs.store.span_names()) + dropped in (400, 401)


def test_directory_of_the_user_is_not_hidden_from_git(programs: Programs) -> None:
    (programs.directory / "results").mkdir()
    programs.instrumented(ONE_SPAN, OTEL_RL_DATA_DIR="results", OTEL_RL_RUN_ID="one")

    assert not (programs.directory / "results/.gitignore").exists()
    assert (programs.directory / "results/one/.gitignore").read_text() == "*\n"


def test_disk_that_is_slow_and_makes_progress_loses_nothing_at_the_end(programs: Programs) -> None:
    # As on a busy machine: the writes together take longer than the timeout, none of them does.
    done = programs.instrumented(
        ONE_SPAN + "import otel_rl, time\n"
        "assert otel_rl.flush(30)\n"
        "from otel_rl.store.writer import rotating_file\n"
        "def slow(self, data, items, append=rotating_file.RotatingFile.append):\n"
        "    time.sleep(0.6)\n"
        "    return append(self, data, items)\n"
        "rotating_file.RotatingFile.append = slow\n"
        "with otel_rl.tool('last'): metrics.get_meter('program').create_counter('late').add(1)\n",
        OTEL_RL_EXIT_TIMEOUT="1",
    )

    assert "no answer in time" not in done.err
    assert programs.store.span_names() == ["execute_tool last", "work"]
    assert len(programs.store.points("late")) == 1
    assert len(programs.store.events("rl.run.end")) == 1
    assert programs.store.manifests()[0]["clean_exit"] is True
