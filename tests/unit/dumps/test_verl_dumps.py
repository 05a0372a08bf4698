"""``otel-rl import`` of verl's JSON lines, read back by the commands that read a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_rl.cli import main

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
RUN = Path("otel-rl/imported")


def _text(message):
    [part] = message["parts"]
    return part["content"]


def test_each_line_is_a_row_with_its_score_and_parts_that_count_nothing(verl_dumps, rows, capsys):
    assert main(["import", str(verl_dumps()), "--run", "imported"]) == 0
    assert capsys.readouterr().out == f"{RUN}\n"

    found = rows(RUN)
    assert [(row["step"], row["rl.rollout.id"]) for row in found] == [
        (step, f"rollouts{step}-{place // 2}_{place % 2}_0") for step in (1, 2) for place in range(4)
    ]
    first, second = found[:2]
    assert first["rl.group.id"] == second["rl.group.id"] == "rollouts1-0"
    assert first["rl.sample.id"] == second["rl.sample.id"] == found[4]["rl.sample.id"] != found[2]["rl.sample.id"]
    assert [row["rl.rollout.reward"] for row in found] == [0.0, 1.0] * 4
    assert second["scores"] == {"reward": 1.0, "reward/acc": 1.0}
    assert second["weights"] == {"reward/acc": 0.0}
    assert (first["rl.rollout.success"], second["rl.rollout.success"]) == (False, True)
    assert "rl.rollout.turns" not in first
    assert "rl.rollout.seconds" not in first


def test_an_evaluation_is_told_from_training(verl_dumps, rows):
    validations = verl_dumps("validations", steps=1)
    assert main(["import", str(verl_dumps()), "--evaluation", str(validations), "--run", "imported"]) == 0

    evaluated = {row["rl.rollout.id"] for row in rows(RUN) if row.get("rl.rollout.evaluation")}
    assert evaluated == {f"validations1-{place // 2}_{place % 2}_0" for place in range(4)}


def test_rows_of_other_ids_and_of_none_are_named_alike_by_each_import(verl_dumps, rows):
    named = verl_dumps("named", uid=None, request_id="r-1")
    unnamed = verl_dumps("unnamed", steps=1, uid=None)
    for run in ("first", "second"):
        assert main(["import", str(named / "1.jsonl"), str(unnamed), "--run", run]) == 0
    ids = [row["rl.rollout.id"] for row in rows(Path("otel-rl/first"))]
    assert ids == ["r-1"] * 4 + ["1-0", "1-1", "1-2", "1-3"]
    assert ids == [row["rl.rollout.id"] for row in rows(Path("otel-rl/second"))]


def test_malformed_lines_are_counted_and_named_and_the_others_imported(verl_dumps, rows, capsys):
    folder = verl_dumps()
    whole = (folder / "2.jsonl").read_text()
    (folder / "2.jsonl").write_text("no json\n" + whole + '[1]\n{"input": "a"}\n' + whole.splitlines()[0][:20])
    (folder / "3.jsonl").write_text("")

    assert main(["import", str(folder), "--run", "imported"]) == 1
    [line, *more] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"otel-rl import: {folder / '2.jsonl'}: 4 malformed lines left out")
    assert line.endswith("line 1, 6, 7, 8")
    assert more == [f"otel-rl import: {folder / '3.jsonl'}: it has no samples"]
    assert len(rows(RUN)) == 8


def test_a_run_that_exists_is_left_as_it_is(verl_dumps, capsys):
    folder = str(verl_dumps())
    assert main(["import", folder]) == 0
    run = Path(capsys.readouterr().out.strip())
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    assert main(["import", folder]) == 2
    assert "exists already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert [path.name for path in run.parent.iterdir() if path.name != ".gitignore"] == [run.name]


@pytest.mark.parametrize("given", [[], ["nothing"], ["notes.txt"], ["missing.jsonl"], ["both"]])
def test_without_a_dump_no_run_is_made(given, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    (tmp_path / "notes.txt").write_text("a")
    (tmp_path / "both").mkdir()
    for name in ("1.jsonl", "1.pt"):
        (tmp_path / "both" / name).write_text("")

    assert main(["import", *given]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.glob("otel-rl/*"))


def test_a_file_that_cannot_be_read_is_named_once_with_the_reason(tmp_path, capsys):
    assert main(["import", str(tmp_path / "1.jsonl"), "--output", str(tmp_path)]) == 2
    reason = f"nothing was imported; {tmp_path / '1.jsonl'}: cannot be read: No such file or directory"
    assert capsys.readouterr().err == f"otel-rl import: {reason}\n"


def test_content_comes_back_with_the_same_texts_and_scores(verl_dumps, exported, monkeypatch, capsys):
    monkeypatch.setenv(CONTENT, "true")
    folder = verl_dumps()
    assert main(["import", str(folder), "--run", "imported"]) == 0

    lines, said = exported(RUN)
    given = [json.loads(line) for step in (1, 2) for line in (folder / f"{step}.jsonl").read_text().splitlines()]
    assert [(*map(_text, line["messages"]), line["scores"]["reward"]) for line in lines] == [
        (line["input"], line["output"], line["score"]) for line in given
    ]
    assert [message["role"] for message in lines[0]["messages"]] == ["user", "assistant"]
    assert said == ""
    assert main(["trajectories", str(RUN), "--rollout", "rollouts1-0_0_0"]) == 0
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == [
        given[0]["input"],
        given[0]["output"],
    ]


def test_without_the_switch_no_text_is_in_the_run_and_the_export_says_how_to_record_it(verl_dumps, exported):
    assert main(["import", str(verl_dumps()), "--run", "imported"]) == 0

    assert not any(b"says" in path.read_bytes() for path in RUN.rglob("*.jsonl"))
    lines, said = exported(RUN)
    assert len(lines) == 8
    assert not any("messages" in line for line in lines)
    assert CONTENT in said
    assert len(said.splitlines()) == 1


def test_the_redaction_sees_each_text(verl_dumps, exported, monkeypatch):
    monkeypatch.setenv(CONTENT, "true")
    monkeypatch.setattr("otel_rl.telemetry.redaction.redact", lambda: lambda text: text.replace("is", "was"))
    assert main(["import", str(verl_dumps()), "--run", "imported"]) == 0

    assert _text(exported(RUN)[0][0]["messages"][1]) == "It was 0, says rollouts."


@pytest.mark.usefixtures("charts_once")
def test_what_a_dump_does_not_have_is_not_recorded_for_the_report(verl_dumps, capsys):
    assert main(["import", str(verl_dumps(steps=12)), "--run", "imported"]) == 0
    capsys.readouterr()
    assert main(["report", str(RUN), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)

    assert report["run"]["end"] == "not recorded"
    assert report["findings"] == []
    states = {one["what"]: (one["state"], one["detail"]) for one in report["checks"]}
    for what in ("late ranks", "failing tools", "errors", "how the processes ended", "lost telemetry"):
        assert states[what] == ("not_recorded", "a dump has only rows of samples")
    assert "does_not_apply" not in {state for state, _ in states.values()}
    assert "unscored samples" in report["checked"]

    page = (RUN / "report.html").read_text()
    assert "rollout dumps of verl; its times are not recorded" in page
    for false in ("no tool was called", "has no end recorded", "did not end in order", "Length</", "Started</"):
        assert false not in page


@pytest.mark.usefixtures("charts_once")
def test_lists_show_the_last_step_and_reward_but_no_duration(verl_dumps, capsys):
    assert main(["import", str(verl_dumps()), "--evaluation", str(verl_dumps("validations", score=0.0))]) == 0
    for _ in range(2):
        capsys.readouterr()
        assert main(["runs", "--json"]) == 0
        run = json.loads(capsys.readouterr().out)
        assert (run["state"], run["seconds"], run["step"]) == ("not recorded", None, 2)
        assert run["reward"]["last"] == 0.5
        # What the report leaves for such lists agrees.
        assert main(["report"]) == 0
