"""``otel-rl trajectories``: every sample of a run as a line of JSON."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import SECOND, GrpoRun, process

from otel_rl.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES, STEPS = 500, 4


def _write(folder: Path, name: str, body: dict[str, Any], steps: int = STEPS) -> Path:
    run = folder / name
    writer = process(run, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    for step in range(1, steps + 1):
        attributes = {"rl.loop.iteration": step, "rl.trajectories.source": "trainer", "rl.trajectories.started": 0}
        writer.event("rl.trajectories", float(step), body, attributes)
    writer.write()
    return run


def _rows(capsys: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_samples_of_all_steps_are_lines_also_those_that_the_page_leaves_out(tmp_path: Path, capsys: Any) -> None:
    body = {
        "rl.rollout.id": [f"s-{number}" for number in range(SAMPLES)],
        "rl.rollout.reward": [number / SAMPLES for number in range(SAMPLES)],
        "rl.reward.names": ["right"],
        "rl.reward.scores": [[number / SAMPLES for number in range(SAMPLES)]],
    }
    assert main(["trajectories", str(_write(tmp_path, "run-1", body))]) == 0
    rows = _rows(capsys)
    assert [(row["step"], row["rl.rollout.id"]) for row in rows] == [
        (step, f"s-{number}") for step in range(1, STEPS + 1) for number in range(SAMPLES)
    ]
    assert rows[7]["scores"] == {"right": rows[7]["rl.rollout.reward"]} == {"right": 7 / SAMPLES}


def test_one_prompt_can_be_followed_over_the_steps(tmp_path: Path, capsys: Any) -> None:
    body = {"rl.rollout.id": ["a", "b", "c"], "rl.sample.id": ["3f9ac2d41b07", None, "77aa00112233"]}
    run = str(_write(tmp_path, "run-1", body))

    assert main(["trajectories", run, "--sample", "3f9a"]) == 0
    assert [(row["step"], row["rl.rollout.id"]) for row in _rows(capsys)] == [
        (step, "a") for step in range(1, STEPS + 1)
    ]
    assert main(["trajectories", run, "--sample", "none"]) == 0
    assert "this run has none of sample none" in capsys.readouterr().err


def test_a_line_is_json_whatever_a_sample_holds(tmp_path: Path, capsys: Any) -> None:
    body = {"rl.rollout.id": ["\u2028 \udc80 a", "b"], "rl.rollout.advantage": [float("nan"), 1.0]}
    assert main(["trajectories", str(_write(tmp_path, "run-1", body, steps=1))]) == 0
    first, second = _rows(capsys)
    assert "rl.rollout.advantage" not in first
    assert (second["rl.rollout.id"], second["rl.rollout.advantage"]) == ("b", 1.0)


def test_a_run_without_trajectories_prints_no_line_and_says_so(tmp_path: Path, capsys: Any) -> None:
    assert main(["trajectories", str(GrpoRun(tmp_path / "data", steps=2, error=False).write())]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "otel-rl trajectories: this run has none; docs/trajectories.md says where they come from\n"


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["trajectories", str(tmp_path / "nothing")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("otel-rl trajectories: ")


def test_lines_that_cannot_be_read_are_told(tmp_path: Path, capsys: Any) -> None:
    run = _write(tmp_path, "run-1", {"rl.rollout.id": ["a"]})
    [file] = run.glob("**/logs-*.jsonl")
    with file.open("a", encoding="utf-8") as lines:
        lines.write("{broken\n")
    assert main(["trajectories", str(run)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == STEPS
    assert captured.err.count("\n") == 1
    assert "1 line " in captured.err


def test_the_rows_of_one_step_are_paged_through(tmp_path: Path, capsys: Any) -> None:
    run = str(_write(tmp_path, "run-1", {"rl.rollout.id": [f"s-{number}" for number in range(SAMPLES)]}))

    pages = []
    for skip in range(0, SAMPLES, 200):
        assert main(["trajectories", run, "--step", "2", "--skip", str(skip), "--limit", "200"]) == 0
        pages.append([(row["step"], row["rl.rollout.id"]) for row in _rows(capsys)])
    assert [len(page) for page in pages] == [200, 200, 100]
    assert [row for page in pages for row in page] == [(2, f"s-{number}") for number in range(SAMPLES)]
    assert main(["trajectories", run, "--step", "9"]) == 0
    assert "this run has none of step 9" in capsys.readouterr().err
    assert main(["trajectories", run, "--skip", "99999"]) == 0
    assert "no line is left between --skip and --limit" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["-1", "many", "1.5"])
def test_a_number_of_lines_that_is_none_is_refused_with_what_to_give(given, capsys):
    with pytest.raises(SystemExit):
        main(["trajectories", "nowhere", f"--limit={given}"])
    assert f"{given!r} is no number of lines; give a whole number from 0 on" in capsys.readouterr().err


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_conversation_is_paged_through_and_each_message_of_it_is_there_once(
    tmp_path: Path, capsys: Any, *, is_left_out: bool
) -> None:
    turns, before = 50, 0
    earlier: dict[str, Any] = {}
    run = tmp_path / "run-1"
    writer = process(run, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    rollout = writer.span("rl.rollout", 0.0, 60.0)
    trace = f"{rollout.trace_id:032x}"
    history = [_said("user", "question")]
    for turn in range(turns):
        answer = _said("assistant", f"answer {turn}")
        content = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history[before:]),
            "gen_ai.output.messages": json.dumps([answer]),
            **earlier,
        }
        call = writer.span("chat m", turn * 1.0, turn + 0.5, content, parent=rollout)
        if is_left_out:
            before, span_id = len(history), f"{call.span_id:016x}"
            earlier = {"rl.inference.earlier_messages": before, "rl.inference.earlier_span_id": span_id}
        history += [answer, _said("user", f"result {turn}")]
    body = {"rl.rollout.id": ["long", "other"], "rl.rollout.trace_id": [trace, "cd" * 16]}
    writer.event("rl.trajectories", 1.0, body, {"rl.loop.iteration": 3, "rl.trajectories.source": "rollout"})
    writer.write()

    seen = []
    for skip in range(0, 2 * turns, 30):
        assert main(["trajectories", str(run), "--rollout", "long", "--skip", str(skip), "--limit", "30"]) == 0
        seen += _rows(capsys)
    assert [line["text"] for line in seen] == [each["parts"][0]["content"] for each in history[:-1]]
    assert [line["message"] for line in seen] == list(range(2 * turns))
    assert {(line["step"], line["of"]) for line in seen} == {(3, 2 * turns)}
    assert main(["trajectories", str(run), "--rollout", "other"]) == 0
    assert "nothing that was said in rollout other is recorded" in capsys.readouterr().err


def test_a_rollout_that_does_not_exist_is_named_with_how_to_list_those_that_do(tmp_path: Path, capsys: Any) -> None:
    run = str(_write(tmp_path, "run-1", {"rl.rollout.id": ["a"]}))

    for further in ([], ["--skip", "3"]):
        assert main(["trajectories", run, "--rollout", "nope", *further]) == 0
        said = capsys.readouterr().err
        assert "this run has no rollout nope, or it has not ended yet" in said
        assert "`otel-rl trajectories` prints a line for each, with its id" in said
    assert main(["trajectories", run, "--rollout", "a", "--step", "9"]) == 0
    assert "this run has no rollout a in step 9" in capsys.readouterr().err
    assert main(["trajectories", run, "--rollout", "a"]) == 0
    assert "nothing that was said in rollout a is recorded: content is off" in capsys.readouterr().err
