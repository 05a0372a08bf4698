"""``otel-rl runs``: the runs of a folder in a terminal, and as JSON."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.recorded_runs import HOSTILE
from unit.report.synthetic_run import SECOND, GrpoRun, process

from otel_rl.cli import main, terminal
from otel_rl.report.core import human

if TYPE_CHECKING:
    from pathlib import Path

#: No character of these may reach a terminal.
CONTROLS = ("\x1b", "\x9b", "\u202e", "\u2028", "\x07", "\r", "\x00")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder, started = tmp_path / "data", time.time_ns() - 3600 * SECOND
    GrpoRun(folder, run_id="failed", started=started).write()
    GrpoRun(folder, run_id="good", error=False, started=started + 600 * SECOND).write()
    return folder


def test_each_run_has_a_line_the_newest_first_and_below_it_what_it_died_of(data: Path, capsys: Any) -> None:
    assert main(["runs", str(data)]) == 0
    captured = capsys.readouterr()
    titles, good, failed, died = captured.out.splitlines()
    assert titles.split("  ")[0] == "RUN"
    assert good.split()[:4] == ["good", "train.py", "in", "order"]
    assert failed.split()[:3] == ["failed", "train.py", "failed"]
    assert died.startswith("  20")
    assert " UTC: rank 1 failed: torch.OutOfMemoryError: out of memory while saving" in died
    assert captured.err == ""


def test_the_last_sign_is_the_time_since_the_newest_record(
    data: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["runs", str(data), "--json"]) == 0
    good, _ = map(json.loads, capsys.readouterr().out.splitlines())
    monkeypatch.setattr(time, "time_ns", lambda: good["last_sign"] + 90 * SECOND)
    assert main(["runs", str(data)]) == 0
    assert f" {human.duration(90)} ago " in capsys.readouterr().out.splitlines()[1]


def test_after_a_report_the_worst_finding_stands_below_a_run(data: Path, capsys: Any) -> None:
    path = data / "good" / "summary.json"
    assert main(["report", str(data), "--run", "good"]) == 0
    content = json.loads(path.read_text())
    content["findings"]["worst"] = {"severity": "critical", "code": "P9_truncation", "title": "Truncation since step 1"}
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["runs", str(data)]) == 0
    assert "  critical: Truncation since step 1\n" in capsys.readouterr().out


def test_json_has_a_line_for_each_run(data: Path, capsys: Any) -> None:
    assert main(["runs", str(data), "--json"]) == 0
    good, failed = map(json.loads, capsys.readouterr().out.splitlines())
    assert (good["id"], good["state"], good["failed"]) == ("good", "in order", 0)
    assert (failed["id"], failed["severity"], failed["code"]) == ("failed", "critical", "ended")
    assert failed["path"] == str(data / "failed")


def test_a_limit_is_told_and_can_be_lifted(data: Path, capsys: Any) -> None:
    assert main(["runs", str(data), "--limit", "1", "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["id"] for line in captured.out.splitlines()] == ["good"]
    assert captured.err == "otel-rl runs: the newest 1 runs; --limit 0 lists all\n"
    assert main(["runs", str(data), "--limit", "0", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 2
    assert captured.err == ""


def test_the_default_folder_is_that_of_the_programs(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_DATA_DIR", str(data))
    assert main(["runs"]) == 0
    assert capsys.readouterr().out.count("train.py") == 2


def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["runs", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(f"otel-rl runs: {tmp_path} is empty; ")


def test_a_run_without_steps_has_none(tmp_path: Path, capsys: Any) -> None:
    process(tmp_path / "data" / "agent", None, started=time.time_ns() - 60 * SECOND).write()
    assert main(["runs", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith(human.UNKNOWN)


def test_a_reward_that_is_not_of_the_last_step_stands_with_its_step(tmp_path: Path, capsys: Any) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.clean_exit = False
    writer.event("rl.step", 50.0, {"reward": 0.25}, {"rl.loop.iteration": 7})
    writer.event("rl.step", 51.0, {"lr": 0.1}, {"rl.loop.iteration": 8})
    writer.write()
    assert main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-3:] == ["0.25", "(step", "7)"]


def test_a_run_that_scores_rollouts_and_logs_no_reward_shows_the_mean_of_the_newest_and_not_its_loss(
    tmp_path: Path, capsys: Any
) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.clean_exit = False
    for step in (7, 8):
        rows = {
            "rl.rollout.reward": [1.0, 0.5, 9.0, 9.0, None],
            "rl.rollout.status": ["finished", "finished", "failed", "finished", "finished"],
            "rl.rollout.evaluation": [None, None, None, True, None],
        }
        writer.event("rl.trajectories", 50.0 + step, rows, {"rl.loop.iteration": step, "rl.trajectories.step": step})
    writer.event("rl.step", 59.0, {"loss": 2.0}, {"rl.loop.iteration": 8})
    writer.write()
    assert main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-1] == "0.75"


def test_hostile_names_and_messages_reach_no_terminal(tmp_path: Path, capsys: Any) -> None:
    text = HOSTILE + "\u2028\x07\r\x00\ud800" + "y" * 5000
    writer = process(tmp_path / "data" / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.resource["rl.run.id"] = text
    attributes = {"exception.type": text, "exception.message": text, "code.file.path": text, "code.line.number": 3}
    writer.event("rl.process.exception", 3.0, attributes=attributes, severity=21)
    writer.clean_exit, writer.exit_reason, writer.ended = False, text, time.time_ns()
    writer.write()
    for _ in ("from files", "from a summary"):
        assert main(["runs", str(tmp_path / "data")]) == 0
        lines = capsys.readouterr().out.split("\n")
        assert not [character for character in CONTROLS if any(character in line for line in lines)]
        assert len(lines) == 4
        assert max(map(len, lines)) < 2000
        assert main(["runs", str(tmp_path / "data"), "--json"]) == 0
        assert capsys.readouterr().out.isascii()
        assert main(["report", str(tmp_path / "data")]) == 0
        capsys.readouterr()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, columns: int
) -> None:
    monkeypatch.setattr(terminal, "columns", lambda: columns)
    assert main(["runs", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert max(map(terminal.width, lines)) <= columns


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert terminal.width("模型") == 4
    assert terminal.width("e\u0301") == 1
    assert terminal.cut("模型模型", 5) == "模型…"
    assert terminal.width(terminal.pad("模", 5)) == 5


def test_what_the_encoding_of_the_terminal_does_not_have_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr("sys.stdout", Ascii())
    assert terminal.clean("é\x1b") == "\\xe9\\x1b"
    assert terminal.cut("abcdefgh", 6) == "abc..."
