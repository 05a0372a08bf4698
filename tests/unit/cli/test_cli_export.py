"""``otel-rl export``: the path on standard output, all else on standard error, one line for what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import GrpoRun

from otel_rl.cli import main
from otel_rl.core import settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return GrpoRun(tmp_path / "data", steps=4).write()


def test_the_path_is_printed_and_how_to_open_it_is_said_beside(run: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["export", str(run), "--perfetto", str(tmp_path / "t.json")]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 't.json'}\n"
    assert "https://ui.perfetto.dev" in captured.err
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["run_id"] == "grpo-7f3a"


def test_a_quiet_export_says_nothing_beside_the_path(
    run: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RL_QUIET", "true")
    settings.reset()
    try:
        assert main(["export", str(run), "--perfetto", str(tmp_path / "t.json")]) == 0
        assert capsys.readouterr().err == ""
    finally:
        monkeypatch.delenv("OTEL_RL_QUIET")
        settings.reset()


def test_without_a_name_the_result_lies_in_the_folder_of_the_run(run: Path, capsys: Any) -> None:
    assert main(["export", str(run), "--perfetto"]) == 0
    assert main(["export", str(run), "--csv"]) == 0
    assert capsys.readouterr().out == f"{run / 'perfetto.json.gz'}\n{run / 'csv'}\n"


@pytest.mark.parametrize("form", ["--perfetto", "--csv"])
def test_a_run_that_is_named_after_the_option_is_read_and_not_overwritten(run: Path, capsys: Any, form: str) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*.jsonl")}
    assert main(["export", form, str(run)]) == 0
    assert capsys.readouterr().out.startswith(str(run))
    assert {path: path.read_bytes() for path in run.rglob("*.jsonl")} == before


def test_what_was_exported_does_not_change_what_is_read(run: Path, capsys: Any) -> None:
    for _ in range(2):
        assert main(["export", str(run), "--csv"]) == 0
        assert main(["export", str(run), "--perfetto"]) == 0
    first = (run / "csv" / "spans.csv").read_bytes()
    assert main(["export", str(run), "--csv"]) == 0
    assert (run / "csv" / "spans.csv").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--step", "x"], "--step x: give one step, or the first and the last one"),
        (["--step", "9-3"], "--step 9-3: give one step"),
        (["--step", "100"], "the run has no step from 100 to 100; it has steps 1 to 4"),
        (["--rank", "one"], "--rank one: give ranks as numbers, lists or ranges"),
        (["--torch-trace", "nothing.json"], "nothing.json: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_what_to_do(
    run: Path, tmp_path: Path, capsys: Any, arguments: list[str], expected: str
) -> None:
    assert main(["export", str(run), "--perfetto", str(tmp_path / "t.json"), *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("otel-rl export: ")
    assert expected in captured.err
    assert not (tmp_path / "t.json").exists()


def test_tables_with_a_profiler_trace_are_refused(run: Path, capsys: Any) -> None:
    assert main(["export", str(run), "--csv", "--torch-trace", "t.json"]) == 2
    assert "--torch-trace belongs to --perfetto" in capsys.readouterr().err


def test_ranks_can_be_given_as_list_and_range(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--perfetto", str(tmp_path / "t.json"), "--rank", "1-3,7", "--rank", "9"]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {one["args"]["name"] for one in events if one["name"] == "process_name"} == {"rank 1 (trainer)"}


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: Any) -> None:
    assert main(["export", str(tmp_path), "--csv"]) == 2
    assert "is empty; expected a folder written by otel-rl" in capsys.readouterr().err
