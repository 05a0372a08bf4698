"""``summary.json``, which a report leaves for lists of runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.synthetic_run import GrpoRun, process

from otel_rl.report import run_summary, subjects, write_report
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import overview
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.endings.process_end import ProcessEnd
from otel_rl.store.reader import Reader, find_run, run_summaries
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[3] / "docs" / "runs.md"


def _summary(folder: Path) -> dict[str, Any]:
    collected = Collected(Reader(find_run(folder)), subjects.load()).read(lambda _: None)
    return run_summary.summary(collected, overview.examine(collected))


def _keys(content: dict[str, Any]) -> Iterator[str]:
    for key, value in content.items():
        yield key
        yield from _keys(value) if isinstance(value, dict) and key not in ("versions", "counts") else ()


def test_it_says_what_run_it_is_how_it_ended_and_what_it_came_to(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data").write()
    report = write_report(run, None)
    content = json.loads((run / "summary.json").read_text())
    assert content["format"] == "otel-rl-summary/1"
    assert (content["run"]["id"], content["run"]["system"], content["run"]["algorithm"]) == ("grpo-7f3a", "trl", "grpo")
    assert (content["run"]["world_size"], content["run"]["processes"], content["run"]["hosts"]) == (2, 2, ["node-a"])
    assert content["run"]["versions"]["torch"] == "2.13.0"
    end = content["end"]
    assert (end["state"], end["is_final"]) == ("failed", True)
    assert end["started_unix_nano"] == end["latest_start_unix_nano"] < end["failed_unix_nano"]
    assert end["seconds"] == (end["ended_unix_nano"] - end["started_unix_nano"]) / 1e9
    worst = report.overview.findings[0]
    assert end["failure"] == worst.text
    assert content["findings"]["worst"] == {"severity": "critical", "code": "ended", "title": worst.text}
    assert sum(content["findings"]["counts"].values()) == len(report.overview.findings)
    assert (content["steps"]["number"], content["steps"]["last"]) == (20, 20)
    assert 1 < content["steps"]["last_seconds"] < 4
    assert content["result"]["reward"]["last_step"] == 20
    assert content["result"]["reward"]["best"] >= content["result"]["reward"]["last"]
    assert (run / "summary.json").stat().st_size < 4096


def test_the_content_is_made_without_writing_anything(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2, error=False).write()
    before = sorted(run.rglob("*"))
    assert _summary(run)["end"]["state"] == "in order"
    assert sorted(run.rglob("*")) == before


def test_every_key_is_documented(tmp_path: Path) -> None:
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    assert set(_keys(_summary(GrpoRun(tmp_path / "data").write()))) <= documented


def test_it_is_replaced_in_one_step_and_leaves_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = GrpoRun(tmp_path / "data", steps=2, error=False).write()
    write_report(run, None)
    before = (run / "summary.json").read_bytes()
    files = sorted(run.iterdir())

    def fails(self: Path, _: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        with pytest.raises(OSError, match="No space"):
            run_summaries.write(run, {"run": {}})
    assert (run / "summary.json").read_bytes() == before
    assert sorted(run.iterdir()) == files


def test_where_it_cannot_be_written_the_page_is_and_a_note_says_so(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2, error=False).write()
    (run / "summary.json").mkdir()
    report = write_report(run, tmp_path / "page.html")
    assert report.output.is_file()
    assert [note for note in report.notes if "summary.json cannot be written" in note]
    assert not list(run.glob(".summary.json*"))


def test_one_process_and_the_files_of_a_collector_get_none(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2, error=False).write()
    processes = [path for path in run.iterdir() if path.is_dir()]
    output = tmp_path / "output"
    output.mkdir()
    for name in ("traces", "logs", "metrics"):
        lines = [(process / f"{name}-0001.jsonl").read_bytes() for process in processes]
        (output / f"{name}.jsonl").write_bytes(b"".join(lines))
    for folder in (processes[0], output):
        assert write_report(folder, None).notes == []
    assert not list(tmp_path.rglob("summary.json"))


def test_texts_of_the_program_are_bounded(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", run_id="x" * 200, steps=2, tool_name="<script>" * 1000).write()
    for manifest in run.glob("*/manifest.json"):
        content = json.loads(manifest.read_text())
        content |= {"command": "c" * 10_000, "versions": {f"library-{number}": "v" * 1000 for number in range(500)}}
        manifest.write_text(json.dumps(content))
    write_report(run, None)
    assert (run / "summary.json").stat().st_size < 64 * 1024


def test_scores_outside_of_rollouts_are_the_reward_of_a_loop_that_logs_none(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", None, started=1_700_000_000_000_000_000)
    for step, scores in ((1, (0.0, 0.5)), (2, (1.0, 0.5)), (3, (0.5, 0.0))):
        where = {"rl.loop.iteration": step}
        writer.span("rl.rank.step", step, step + 0.5, where)
        writer.event("rl.step", step, {"loss": 1.0 / step}, {**where, "rl.step.last": step})
        for score in scores:
            named = {"gen_ai.evaluation.name": "exact", "gen_ai.evaluation.score.value": score}
            writer.event("gen_ai.evaluation.result", step, attributes={**where, **named})
    writer.write()
    reward = _summary(tmp_path / "run")["result"]["reward"]
    assert (reward["last"], reward["last_step"], reward["best"], reward["best_step"]) == (0.25, 3, 0.75, 2)


def test_a_killed_process_is_listed_at_the_step_that_its_ring_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GrpoRun(tmp_path / "data", error=False).write()
    collected = Collected(Reader(find_run(run)), subjects.load()).read(lambda _: None)
    last = ProcessEnd(collected.reader.processes[0], EndState.GONE, "ended", 1, iteration=27)
    monkeypatch.setattr(process_end, "ends", lambda _: [last])
    assert run_summary.summary(collected, overview.examine(collected))["steps"]["last"] == 27
