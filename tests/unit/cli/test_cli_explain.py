"""``otel-rl explain``: findings with the values and records that prove them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import Job

from otel_rl.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose reward function takes longer on rank 1 since step 16."""
    return Job(
        tmp_path / "run",
        lambda _step, _rank: {"sample": 0.2, "reward": 0.0, "train": 0.2},
        functions=lambda step, rank: {"judge": 0.4 if rank == 1 and step >= 16 else 0.05},
    ).write()


def test_a_finding_has_the_values_around_its_onset_and_the_steps_there_with_traces(run: Path, capsys: Any) -> None:
    assert main(["explain", str(run)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("1. warning: Reward function judge on rank 1 takes ")
    values = [line.split() for line in lines if line.startswith("   step ") and ":" not in line]
    assert [value[1] for value in values[:8]] == ["13", "14", "15", "16", "17", "18", "19", "20"]
    assert values[3][-3:] == ["<-", "since", "here"]
    step = next(line for line in lines if line.startswith("   step 16: "))
    assert "process rank 1, " in step
    assert len(step.rpartition("trace_id ")[2].partition(",")[0]) == 32


def test_json_has_the_proof_of_each_finding_and_is_the_same_each_time(run: Path, capsys: Any) -> None:
    texts = []
    for _ in range(2):
        assert main(["explain", str(run), "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    explained = json.loads(texts[0])
    [finding] = explained["findings"]
    assert (explained["format"], finding["onset_step"], finding["points"][3][0]) == (1, 16, 16)
    assert [row["record"] for row in finding["records"]] == ["call"] * 4 + ["step"] * 4
    assert {row["process"] for row in finding["records"]} == {"rank 1"}
    assert sorted(row["step"] for row in finding["records"]) == [16, 16, 17, 17, 18, 18, 19, 19]


def test_the_finding_of_a_rule_has_the_logged_values_around_its_onset(tmp_path: Path, capsys: Any) -> None:
    job = Job(tmp_path / "run", lambda _step, _rank: {"sample": 0.2, "train": 0.2})
    job.logged = lambda step: {"completions/clipped_ratio": 0.75 if step >= 16 else 0.02 + step / 1000}
    assert main(["explain", str(job.write()), "--json"]) == 0
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["onset_step"]) == ("P9_truncation", 16)
    assert finding["points"][2:4] == [[15, "0.035"], [16, "0.75"]]


def test_what_follows_from_a_finding_is_numbered_below_it(run: Path, capsys: Any) -> None:
    assert main(["explain", str(run), "--finding", "1"]) == 0
    assert "   1.1. " in capsys.readouterr().out


def test_a_number_that_no_finding_has_is_one_clear_line(run: Path, capsys: Any) -> None:
    assert main(["explain", str(run), "--finding", "7"]) == 2
    assert capsys.readouterr().err == "otel-rl explain: --finding 7: the run has 1 finding\n"


def test_a_run_in_which_nothing_was_found_says_what_was_checked(tmp_path: Path, capsys: Any) -> None:
    run = Job(tmp_path / "run", lambda _step, _rank: {"sample": 0.2, "train": 0.2}).write()
    assert main(["explain", str(run)]) == 0
    assert capsys.readouterr().out.startswith("Nothing wrong found in 40 steps of 2 ranks: checked ")


def test_a_folder_without_a_run_is_one_clear_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["explain", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
