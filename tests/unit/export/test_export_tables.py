"""A run as tables: what pandas and a spreadsheet read is what was recorded, and no cell is a formula."""

from __future__ import annotations

import csv
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from unit.export.recorded_lines import Lines
from unit.report.synthetic_run import GrpoRun

from otel_rl.cli import main
from otel_rl.export import export_tables
from otel_rl.export.csv_cells import line, moment
from otel_rl.export.excerpt import RunExcerpt
from otel_rl.store.reader import UnusableInput

if TYPE_CHECKING:
    from pathlib import Path

ALL = RunExcerpt()
NAMES = {"spans.csv", "values.csv", "steps.csv", "trajectories.csv"}


def _table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


def _tables(run: Path, excerpt: RunExcerpt = ALL) -> tuple[dict[str, list[dict[str, str]]], list[str]]:
    done = export_tables(run, run.parent / "tables", excerpt)
    assert {path.name for path in done.output.iterdir()} == NAMES
    assert not [path for path in run.parent.iterdir() if path.name.startswith(".")], "left behind"
    return {path.stem: _table(path) for path in done.output.iterdir()}, done.notes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = Lines(tmp_path / "run", rank=1)
    step = {"rl__loop__iteration": 3}
    lines.span("rl.generate", 120, 170, "generate", "sample", rl__phase="generate", **step)
    lines.span("rl.sample", 110, 200, "sample", "step", rl__phase="sample", **step)
    lines.span("rl.reward", 210, 220, "f", "reward", rl__phase="reward", rl__reward__name="f", **step)
    lines.span("rl.reward", 200, 300, "reward", "step", rl__phase="reward", rl__active_duration=0.07, **step)
    lines.span("rl.rank.step", 100, 400, "step", error__type="ValueError", **step)
    lines.span("rl.loop", 100, 400, "loop", **step)
    lines.log("rl.step", 400, {"loss": 0.25, "bad": math.nan, "huge": math.inf, "note": "=1+1"}, **step)
    body = {"rl.rollout.id": ["a", "=b"], "rl.rollout.reward": [1.0, math.nan], "rl.reward.names": ["right"]}
    lines.log("rl.trajectories", 400, {**body, "rl.reward.scores": [[1.0, 0.5]]}, **step)
    return lines.write()


def test_spans_come_by_start_with_their_ids_rank_step_phase_and_error(run: Path) -> None:
    tables, _ = _tables(run)
    spans = tables["spans"]
    assert [span["name"] for span in spans][:3] == ["rl.rank.step", "rl.loop", "rl.sample"]
    assert spans[0] == {
        "start": "2026-05-28T20:26:40.100000000Z",
        "end": "2026-05-28T20:26:40.400000000Z",
        "duration": "0.3",
        "name": "rl.rank.step",
        "trace_id": "t1",
        "span_id": "step",
        "parent_id": "",
        "process": "rank 1",
        "rank": "1",
        "step": "3",
        "phase": "",
        "error": "ValueError",
    }


def test_logged_values_are_in_long_form(run: Path) -> None:
    tables, _ = _tables(run)
    values = [(row["step"], row["rank"], row["key"], row["value"]) for row in tables["values"]]
    assert values == [
        ("3", "1", "loss", "0.25"),
        ("3", "1", "bad", ""),
        ("3", "1", "huge", "inf"),
        ("3", "1", "note", "'=1+1"),
    ]


def test_a_step_has_the_seconds_of_its_phases_and_none_of_a_reward_function(run: Path) -> None:
    tables, _ = _tables(run)
    [step] = tables["steps"]
    assert (step["step"], step["rank"], step["duration"]) == ("3", "1", "0.3")
    assert {key: value for key, value in step.items() if key.endswith("_seconds") and value} == {
        "sample_seconds": "0.09",
        "generate_seconds": "0.05",
        "reward_seconds": "0.07",
    }


def test_trajectories_are_the_rows_of_the_command_of_that_name(run: Path, capsys: Any) -> None:
    tables, _ = _tables(run)
    assert main(["trajectories", str(run)]) == 0
    rows = [json.loads(printed) for printed in capsys.readouterr().out.splitlines()]
    assert [row["rl.rollout.id"] for row in rows] == ["a", "=b"]
    first, second = tables["trajectories"]
    assert (first["step"], first["rl.rollout.id"], first["rl.rollout.reward"]) == ("3", "a", "1.0")
    assert (second["rl.rollout.id"], second["rl.rollout.reward"], second["scores.right"]) == ("'=b", "", "0.5")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1"])
def test_text_that_a_spreadsheet_takes_for_a_formula_is_neutralised(text: str) -> None:
    [[cell]] = csv.reader([line([text]).decode()], strict=True) if "\n" not in text and "\r" not in text else [["'"]]
    assert cell.startswith("'")
    assert line([text]).lstrip(b'"').startswith(b"'")


def test_numbers_stay_numbers_and_text_stays_as_it_is() -> None:
    assert line([-1.5, 7, True, None, 'a "quoted", text', "two\nlines"]) == (
        b'-1.5,7,true,,"a ""quoted"", text","two\nlines"\r\n'
    )


def test_text_of_any_kind_is_written_as_utf_8() -> None:
    assert line(["\ud800 \0 \U0001f600"]).decode("utf-8") == "? \ufffd \U0001f600\r\n"


def test_times_are_exact() -> None:
    assert moment(1_780_000_000_000_000_001) == "2026-05-28T20:26:40.000000001Z"


def test_one_table_alone_is_written_where_its_name_is_given(run: Path) -> None:
    done = export_tables(run, run.parent / "values.csv", ALL)
    assert [path.name for path in run.parent.iterdir() if path.is_file()] == ["values.csv"]
    assert len(_table(done.output)) == 4
    with pytest.raises(UnusableInput, match=r"or one of spans\.csv, values\.csv"):
        export_tables(run, run.parent / "curves.csv", ALL)


def test_only_the_wanted_steps_and_ranks_are_exported(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=9).write()
    tables, _ = _tables(run, RunExcerpt((4, 5), frozenset({0})))
    assert {row["step"] for name in ("steps", "values") for row in tables[name]} == {"4", "5"}
    assert {row["step"] for row in tables["spans"]} == {"4", "5", ""}
    assert {row["rank"] for row in tables["spans"]} == {"0"}
    with pytest.raises(UnusableInput, match="no step from 40 to 50"):
        export_tables(run, None, RunExcerpt((40, 50)))


def test_a_run_without_steps_or_values_has_tables_with_nothing_but_their_heads(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("work", 0, 1, "a")
    tables, _ = _tables(lines.write())
    assert (len(tables["spans"]), tables["steps"], tables["values"], tables["trajectories"]) == (1, [], [], [])


def test_half_a_line_is_told(run: Path) -> None:
    file = next(run.glob("*/traces-0001.jsonl"))
    file.write_bytes(file.read_bytes() + b'{"resourceSp')
    _, notes = _tables(run)
    assert any("1 line cut off" in note for note in notes)
