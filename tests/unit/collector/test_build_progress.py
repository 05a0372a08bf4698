"""What a build of Go programs says while it runs: time and packages, and every other line of the command."""

from __future__ import annotations

import fcntl
import io
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import build_progress
import check
import go_build
import pytest
from build_progress import PLAIN_INTERVAL, Display

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """Shows the time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_at_the_begin_now_and_then_and_at_the_end() -> None:
    stream, clock = io.StringIO(), Clock()
    display = Display("compiling it", stream, clock)
    for package in ("runtime", "google.golang.org/grpc"):
        display.line(package)
    display.tick()
    clock.now += PLAIN_INTERVAL
    display.tick()
    display.tick()
    clock.now += 60
    display.end("done")
    assert stream.getvalue().splitlines() == [
        "otel-rl build: compiling it",
        "otel-rl build: compiling it: 2 packages, 0:30 min",
        "otel-rl build: compiling it: done, 2 packages, 1:30 min",
    ]


def test_on_a_terminal_one_line_changes_and_other_lines_of_the_command_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Terminal(), Clock()
    display = Display("compiling it", stream, clock)
    clock.now += 1
    display.tick()
    display.line("go: downloading example.org/a v1.0.0")
    display.end("done")
    clear = "\r\x1b[K"
    assert stream.getvalue() == (
        f"{clear}otel-rl build: compiling it"
        f"{clear}otel-rl build: compiling it: 0:01 min"
        f"{clear}go: downloading example.org/a v1.0.0\n"
        f"{clear}otel-rl build: compiling it: done, 0:01 min\n"
    )


def test_packages_of_a_command_are_counted_and_its_errors_are_shown(tmp_path: Path, capfd: Any) -> None:
    text = "print('runtime\\nsync/atomic\\n# example.org/a\\na.go:1:2: undefined: b', end=''); raise SystemExit(2)"
    with pytest.raises(go_build.BuildError, match="exit status 2"):
        go_build.run([sys.executable, "-c", text], tmp_path, doing="compiling a")
    begun, *errors, ended = capfd.readouterr().err.splitlines()
    assert begun == "otel-rl build: compiling a"
    assert errors == ["# example.org/a", "a.go:1:2: undefined: b"]
    assert ended.startswith("otel-rl build: compiling a: failed, 2 packages, ")


def test_time_is_told_while_a_command_prints_nothing(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    class Telling(Display):
        def tick(self) -> None:
            super().tick()
            told.set()

    monkeypatch.setattr(build_progress, "Display", Telling)
    monkeypatch.setattr(build_progress, "TERMINAL_INTERVAL", 0.01)
    monkeypatch.setattr(build_progress, "PLAIN_INTERVAL", 0.0)
    (tmp_path / "gate").mkdir()
    text = "import os, time\nwhile os.path.isdir('gate'): time.sleep(0.01)"
    threading.Thread(target=lambda: (told.wait(300), (tmp_path / "gate").rmdir())).start()
    build_progress.run("waiting", [sys.executable, "-c", text], tmp_path, None)
    assert re.search(r"otel-rl build: waiting: \d+:\d\d min", capfd.readouterr().err)


def test_a_build_that_waits_for_another_process_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, said, waits = tmp_path / "otelcol-rl" / "key", [], threading.Event()
    monkeypatch.setattr(go_build, "progress", lambda message: (said.append(message), waits.set()))
    target.parent.mkdir()
    with (target.parent / "key.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=go_build.build_once, args=(target, lambda folder: (folder / "made").touch()))
        waiting.start()
        assert waits.wait(300)
        fcntl.flock(lock, fcntl.LOCK_UN)
        waiting.join(300)
    assert said == ["another process is building otelcol-rl; waiting for it"]
    assert (target / "made").exists()


@pytest.mark.parametrize(
    ("output", "is_no_failure"),
    [
        ("--- FAIL: FuzzTheReceiver (21.02s)\n    context deadline exceeded\nFAIL\nexit status 1\n", True),
        (
            "--- FAIL: FuzzTheReceiver (0.02s)\n    receiver_test.go:9: 500\n    context deadline exceeded\nFAIL\n",
            False,
        ),
        (
            "--- FAIL: FuzzTheReceiver (0.02s)\n    context deadline exceeded\n    Failing input written to x\nFAIL\n",
            False,
        ),
        ("panic: test timed out\n", False),
        ("", False),
    ],
)
def test_a_fuzz_test_whose_time_ends_in_the_middle_of_an_input_has_not_failed(output: str, is_no_failure: bool) -> None:
    assert check.ended_by_its_own_deadline(output) is is_no_failure
