"""What people copy or move aside for a replay is not counted a second time."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from unit.report.synthetic_run import GrpoRun

from otel_rl.report import write_report
from otel_rl.store.reader import Reader, copies, find_run

if TYPE_CHECKING:
    from pathlib import Path


def _output(folder: Path, run_id: str = "grpo") -> Path:
    """Return the folder of a collector's start below ``folder``/otel-rl that got a run."""
    run = GrpoRun(folder / "data", run_id=run_id, steps=2).write()
    output = folder / "otel-rl" / "collector" / f"start-{run_id}"
    output.mkdir(parents=True)
    for signal in ("traces", "metrics", "logs"):
        text = "".join(file.read_text() for file in sorted(run.glob(f"*/{signal}-*.jsonl")))
        (output / f"{signal}.jsonl").write_text(text)
    return output


def _number(folder: Path) -> int:
    return len(list(Reader(find_run(folder)).records()))


def _first_half(file: Path) -> str:
    lines = file.read_text().splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2])


def test_a_copied_folder_is_read_once_and_named(tmp_path: Path) -> None:
    output = _output(tmp_path)
    number = _number(output)
    saved = shutil.copytree(output, output.with_name("start-grpo.saved"))
    source = find_run(tmp_path / "otel-rl")
    assert len(list(Reader(source).records())) == number
    assert source.path == output
    assert source.remarks == [
        f"3 files are copies and not read again: {saved}/traces.jsonl of {output}/traces.jsonl, ..."
    ]


@pytest.mark.parametrize("torn", ["", '{"resourceSpans":[{"res'])
def test_a_copy_is_known_when_its_original_has_grown_and_was_moved_aside(tmp_path: Path, torn: str) -> None:
    output = _output(tmp_path)
    number = _number(output)
    saved = output.with_name("saved")
    saved.mkdir()
    (saved / "traces.jsonl").write_text(_first_half(output / "traces.jsonl") + torn)
    (output / "traces.jsonl").rename(output / "traces-2026-01-01T00-00-00.000.jsonl")
    assert _number(tmp_path / "otel-rl") == number


def test_files_that_only_begin_alike_are_all_read(tmp_path: Path) -> None:
    for name, text in {"a": "1\n2\n3\n", "b": "1\n4\n", "c": "", "d": "", "e": "1\n2\n"}.items():
        (tmp_path / name).write_text(text)
    assert copies.find_copies(sorted(tmp_path.iterdir())) == {tmp_path / "e": tmp_path / "a"}


def test_of_two_runs_a_new_copy_does_not_make_the_old_one_the_newest(tmp_path: Path) -> None:
    old = _output(tmp_path, "old")
    _output(tmp_path, "new")
    shutil.copytree(old, old.with_name("start-old.saved"), copy_function=shutil.copyfile)
    source = find_run(tmp_path / "otel-rl")
    assert (source.run_id, source.others, source.remarks) == ("new", ["old"], [])


@pytest.mark.parametrize("name", ["traces.jsonl", "traces-0001.jsonl"])
def test_what_lies_there_for_a_replay_is_not_read_beside_other_files(tmp_path: Path, name: str) -> None:
    output = _output(tmp_path)
    number = _number(output)
    replay = tmp_path / "otel-rl" / "collector-replay"
    replay.mkdir()
    moved = "".join(reversed((output / "traces.jsonl").read_text().splitlines(keepends=True)))
    (replay / name).write_text(moved)
    source = find_run(tmp_path / "otel-rl")
    assert len(list(Reader(source).records())) == number
    assert source.remarks == [f"{replay} is for replay and not read; to read it, give it as the folder"]
    assert _number(replay)
    shutil.rmtree(output)
    assert _number(tmp_path / "otel-rl") == _number(replay)


def test_the_page_and_the_terminal_say_what_was_not_read(tmp_path: Path) -> None:
    output = _output(tmp_path)
    shutil.copytree(output, output.with_name("start-grpo.saved"))
    report = write_report(tmp_path / "otel-rl", None)
    (note,) = [note for note in report.notes if "not read again" in note]
    assert note.startswith("3 files are copies")
    assert "3 files are copies and not read again" in report.output.read_text()
