"""Several late ranks: each is named, live and in the report, with what mending it alone and with the others gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import late_rank_jobs

PROGRAM = Path(__file__).with_name("late_in_turn_program.py")


def _run(folder: Path, kind: str, steps: int, ranks: int) -> dict[int, dict[str, Any]]:
    """Run the program; return the first event of each rank."""
    late_rank_jobs.run(folder, ranks, PROGRAM, kind, steps)
    found: dict[int, dict[str, Any]] = {}
    for event in late_rank_jobs.events(folder):
        if event["event"] == "rl.straggler":
            found.setdefault(int(event["rl.straggler.rank"]), event)
    return found


def _lost_shares(folder: Path) -> dict[int, float]:
    """Rank -> last value of the gauge."""
    return {
        int(point["rl.straggler.rank"]): value
        for point, value in late_rank_jobs.gauge(folder, "rl.straggler.lost_share")
    }


def test_two_ranks_that_are_late_in_different_phases_are_named_with_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "two_phases", 60, 2)

    assert {rank: event["rl.phase"] for rank, event in told.items()} == {0: "reward", 1: "sample"}
    for event in told.values():
        # 60 of 220 ms each; a busy machine adds to the steps.
        assert event["rl.straggler.alone_lost_time"] == pytest.approx(0.06, abs=0.015)
        assert event["rl.straggler.lost_share"] == pytest.approx(0.26, abs=0.07)
    assert set(_lost_shares(tmp_path)) == {0, 1}
    said = late_rank_jobs.late_ranks(tmp_path, capsys)
    assert "Rank 0 worked longer than the fastest in phase reward in " in said[0]["text"]
    assert "Rank 1 worked longer than the fastest in phase sample in " in said[1]["text"]
    for rank, finding in said.items():
        assert f"Mending rank {rank} alone gives back " in finding["text"]
        assert f"; with rank {1 - rank} mended too, 1" in finding["text"]
        assert finding["cost"] == pytest.approx(0.26, abs=0.07)
        assert finding["onset_step"] is None, "late from the first compared step on"


def test_two_of_four_ranks_are_named_and_mending_one_of_them_is_not_said_to_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "two_of_four", 80, 4)

    assert {rank: event["rl.straggler.beside"] for rank, event in told.items()} == {2: [3], 3: [2]}
    for event in told.values():
        assert event["rl.straggler.lost_time"] == pytest.approx(0.06, abs=0.015)
        assert event["rl.straggler.alone_lost_time"] < 0.015
    said = late_rank_jobs.late_ranks(tmp_path, capsys)
    assert set(said) == {2, 3}
    for rank, finding in said.items():
        assert f"Mending rank {rank} alone gives back " in finding["text"]
        assert f"; with rank {5 - rank} mended too, " in finding["text"]
        assert 0.3 < finding["cost"] < 0.6


def test_a_rank_that_evaluates_in_every_second_step_is_named_with_its_share_of_all_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "other_step", 60, 2)

    assert set(told) == {0}
    assert told[0]["rl.phase"] == "evaluate"
    # 150 of 200 ms.
    assert told[0]["rl.straggler.lost_share"] == pytest.approx(0.74, abs=0.08)
    [(rank, share)] = _lost_shares(tmp_path).items()
    assert (rank, share) == (0, pytest.approx(0.74, abs=0.08))
    [finding] = late_rank_jobs.late_ranks(tmp_path, capsys).values()
    assert finding["ranks"] == [0]
    assert finding["cost"] == pytest.approx(0.73, abs=0.08)
    assert "in phase evaluate" in finding["text"]
