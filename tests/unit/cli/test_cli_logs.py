"""``otel-rl logs``: the last records and exceptions of a run, over all its processes."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import recorded_runs
from unit.report.synthetic_run import SECOND, GrpoRun, ProcessWriter, process

from otel_rl.cli import logs, main
from otel_rl.store.reader import log_tail

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLS = ("\x1b", "\x9b", "\u202e")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real job of two ranks of which the second one failed."""
    folder = tmp_path_factory.mktemp("data") / "otel-rl"
    for rank, way in (("0", "good"), ("1", "failing")):
        environ = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        recorded_runs.record(folder, "job", way, environ)
    return folder


def _copy(recorded: Path, rank: int, run: Path) -> Path:
    """Copy what a rank of the job recorded into another run."""
    [place] = (path for path in (recorded / "job").iterdir() if f"-rank{rank}-" in path.name)
    copy = run / place.name
    copy.mkdir(parents=True)
    for file in place.iterdir():
        (copy / file.name).write_bytes(file.read_bytes().replace(b'"job"', json.dumps(run.name).encode()))
    return run


def _lines(capsys: Any) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("    ")]


def _said(lines: list[str]) -> list[str]:
    return [line.split("  ", 3)[-1] for line in lines]


def test_the_records_of_all_ranks_come_in_the_order_of_their_times(recorded: Path, capsys: Any) -> None:
    assert main(["logs", str(recorded)]) == 0
    lines = _lines(capsys)
    assert lines == sorted(lines)
    steps = [f"trainer: step {step} of rank {rank}" for rank in (0, 1) for step in range(1, 6)]
    assert _said(lines)[:10] == steps
    assert "  INFO   rank 0  trainer: step 1 of rank 0" in lines[0]
    assert "  ERROR  rank 1  trainer: about to fail: " in lines[10]
    assert "  FATAL  rank 1  uncaught RuntimeError: " in lines[11]
    assert lines[11].endswith("(<string>:18)")


def test_nothing_of_a_text_has_an_effect_on_the_terminal(recorded: Path, capsys: Any) -> None:
    assert main(["logs", str(recorded), "--stack", "--events"]) == 0
    out = capsys.readouterr().out
    assert not [character for character in CONTROLS if character in out]
    assert r"\x1b[31mred\x1b[0m <script>alert(1)</script>" in out
    # A second line cannot look like a record.
    assert "\n    second line " in out


def test_a_rank_the_errors_and_a_number_can_be_chosen(recorded: Path, capsys: Any) -> None:
    assert main(["logs", str(recorded), "--rank", "0", "--last", "2"]) == 0
    assert _said(_lines(capsys)) == ["trainer: step 4 of rank 0", "trainer: step 5 of rank 0"]
    assert main(["logs", str(recorded), "--errors"]) == 0
    assert [line.split("  ")[1] for line in _lines(capsys)] == ["ERROR", "FATAL"]
    assert main(["logs", str(recorded), "--last", "0"]) == 0
    everything = _lines(capsys)
    assert main(["logs", str(recorded), "--last", "1000"]) == 0
    assert _lines(capsys) == everything
    assert len(everything) == 12


def test_stacks_and_events_are_left_out_unless_they_are_asked_for(recorded: Path, capsys: Any) -> None:
    assert main(["logs", str(recorded), "--stack"]) == 0
    out = capsys.readouterr().out
    assert "\n    Traceback (most recent call last):\n" in out
    assert "rl.step" not in out
    assert main(["logs", str(recorded), "--events", "--last", "0"]) == 0
    assert "rl.step: " in capsys.readouterr().out


def test_a_run_without_a_record_says_that_prints_are_not_kept(tmp_path: Path, capsys: Any) -> None:
    GrpoRun(tmp_path / "data", steps=2, error=False).write()
    assert main(["logs", str(tmp_path / "data")]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "prints are not kept" in captured.err
    assert "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true" in captured.err


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["logs", str(tmp_path / "nothing")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("otel-rl logs: ")


def test_an_exception_that_was_logged_has_its_place_below_the_message(tmp_path: Path, capsys: Any) -> None:
    writer = process(tmp_path / "data" / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    attributes = {
        "exception.type": "KeyError",
        "exception.message": "'reward'",
        "exception.stacktrace": "Traceback\n x",
    }
    writer.event(
        "", 1.0, "scoring failed", attributes | {"code.file.path": "a.py", "code.line.number": 12}, severity=17
    )
    writer.event("", 2.0, {"a": [1, float("nan")]}, None)
    writer.write()
    assert main(["logs", str(tmp_path / "data"), "--stack"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.endswith("  ERROR  rank 0  otel_rl.trl: scoring failed")
    assert rest[:3] == ["    KeyError: 'reward' (a.py:12)", "    Traceback", "     x"]
    assert rest[3].endswith('otel_rl.trl: {"a": [1, NaN]}')


def test_lines_that_cannot_be_read_are_told_and_the_others_printed(recorded: Path, tmp_path: Path, capsys: Any) -> None:
    folder = Path(shutil.copytree(recorded, tmp_path / "data"))
    for place, file in enumerate(sorted(folder.glob("*/*/logs-0001.jsonl"))):
        with file.open("ab") as stream:
            stream.write(b'{broken "observedTimeUnixNano":\n' if place else b'{"resourceLogs":[{"half')
    assert main(["logs", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("trainer: step") == 10
    assert captured.err == "otel-rl logs: Not read: 1 line cut off at the end of a file, 1 line is no JSON.\n"


def _log_line(writer: ProcessWriter, number: int) -> bytes:
    writer.event("", number / 1000, f"line {number}")
    [file] = (writer.write() / "logs-0001.jsonl",)
    return file.read_bytes()


def test_of_a_large_file_nothing_but_the_end_is_read(tmp_path: Path, capsys: Any) -> None:
    writer = process(tmp_path / "data" / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    line = _log_line(writer, 1)
    with (writer.folder / "logs-0001.jsonl").open("r+b") as stream:
        stream.truncate(2**40)  # a hole: to read it would take hours
        stream.seek(0, 2)
        stream.write(b"\n" + line)
    assert main(["logs", str(tmp_path / "data"), "--last", "1"]) == 0
    assert _said(_lines(capsys)) == ["otel_rl.trl: line 1"]


def test_lines_with_nothing_but_our_own_events_are_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source_folder = recorded_runs.record(
        tmp_path / "data", "quiet", "good", {"OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "false"}
    )
    parsed = []
    monkeypatch.setattr(log_tail, "parse", lambda line, _: parsed.append(line))
    assert main(["logs", str(source_folder)]) == 0
    assert parsed == []


def test_records_of_a_collector_are_those_of_the_run(recorded: Path, tmp_path: Path, capsys: Any) -> None:
    other = _copy(recorded, 0, tmp_path / "data" / "other")
    output = tmp_path / "output"
    output.mkdir()
    files = [*sorted(recorded.glob("*/*/logs*.jsonl")), *sorted(other.glob("*/logs*.jsonl"))]
    (output / "logs.jsonl").write_bytes(b"".join(file.read_bytes() for file in files))
    assert main(["logs", str(output), "--run", "job", "--rank", "0"]) == 0
    assert _said(_lines(capsys)) == [f"trainer: step {step} of rank 0" for step in range(1, 6)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    running = recorded_runs.begin(tmp_path / "data", "live", "waiting")
    recorded_runs.wait_until_stepped(running)
    yield running
    running.kill()
    running.communicate()


def test_what_is_written_is_followed_until_the_run_is_gone(
    live: subprocess.Popen[str], recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Each look at the files is followed by the next event: another rank, half a line, the rest of it, the end."""
    folder = tmp_path / "data"
    [own] = (path for path in (folder / "live").iterdir() if path.is_dir())
    line = next(line for line in (own / "logs-0001.jsonl").read_bytes().splitlines(keepends=True) if b"step 3" in line)
    record = line.replace(b"step ", b"appended ")

    def append(data: bytes) -> None:
        with (own / "logs-0001.jsonl").open("ab") as stream:
            stream.write(data)

    printed: list[str] = []
    events = iter(
        [
            lambda: append(record[:50]),
            lambda: append(record[50:]),
            lambda: _copy(recorded, 1, folder / "live"),
            lambda: shutil.rmtree(folder),
        ]
    )

    def happens(_: float) -> None:
        printed.append(capsys.readouterr().out)
        next(events)()

    monkeypatch.setattr(logs.time, "sleep", happens)
    assert main(["logs", str(folder), "--last", "1", "--follow"]) == 0
    rest = capsys.readouterr()
    assert printed[0].count("\n") == 1
    assert "step 5 of rank None" in printed[0]
    assert printed[1] == ""
    assert "appended" in printed[2]
    assert [f"step {step} of rank 1" in printed[3] for step in range(1, 6)] == [True] * 5
    assert "step 5 of rank None" not in "".join(printed[1:])
    assert rest.err.endswith(f"{folder / 'live'} is gone\n")


def test_ctrl_c_ends_following_without_a_traceback(live: subprocess.Popen[str], tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("otel-rl")
    command = [program, "logs", tmp_path / "data", "--last", "1", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert "step 5" in follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate()
    assert follower.returncode == 130
    assert err == ""


def test_thousands_of_files_are_read_with_few_descriptors(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.event("", 1.0, "hello")
    place = writer.write()
    manifest = json.loads((place / "manifest.json").read_text())
    for rank in itertools.count(1):
        copy = run / f"node-a-rank{rank}-{rank:08x}"
        shutil.copytree(place, copy)
        (copy / "manifest.json").write_text(json.dumps({**manifest, "rank": rank}))
        if rank == 1200:
            break
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from otel_rl.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "logs", run, "--last", "1500"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hello") == 1201
