"""What is said of a process whose live ring is not on this machine: its place is that of a copy, up to 30 s older."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from unit.ranks.written_ranks import Ranks

from otel_rl.flight_recorder import collective_places, layout
from otel_rl.live import standstill
from otel_rl.live.liveness import Liveness
from otel_rl.live.standing import ProcessSign, ProcessState, Standing
from otel_rl.process.lifetime import Lifetime, boot_id, pid_namespace

if TYPE_CHECKING:
    from pathlib import Path


def _sign(state: ProcessState, step: int | None, still: float | None) -> ProcessSign:
    return ProcessSign("rank 1", 1, "node", 7, state, step, "train", silent=2.0, still=still)


def test_the_step_of_a_live_ring_counts_and_else_the_later_one_of_its_copy_and_what_is_recorded() -> None:
    live, copy = _sign(ProcessState.RUNNING, 31, 0.5), _sign(ProcessState.UNKNOWN, 29, None)
    assert Standing([live]).last_step(30) == 31
    # A job that goes on from a checkpoint makes steps that it had recorded before.
    assert Standing([live]).last_step(55) == 31
    assert Standing([copy]).last_step(55) == 55
    assert Standing([copy]).last_step(None) == 29
    assert Standing([]).last_step(0) == 0


@pytest.mark.parametrize(
    ("still", "where"), [(1.0, ", in step 29 (train)."), (None, "; at most 30 s earlier it was in step 29 (train).")]
)
def test_a_death_is_not_said_to_be_where_a_copy_of_the_ring_saw_the_process(still: float | None, where: str) -> None:
    (death,) = standstill.deaths([_sign(ProcessState.GONE, 29, still)], {})
    assert death.text == f"Rank 1 is gone without an end: killed, or os._exit{where}"


def test_a_rank_that_fails_while_one_before_it_was_still_seen_to_run_is_not_yet_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = ProcessSign("rank 0", 0, "node", 6, ProcessState.ENDED, 29, silent=1.0, cause="RuntimeError")
    failed.lifetime, other = Lifetime("boot", 6, 1, 0), Lifetime("boot", 7, 1, 0)
    liveness = Liveness(tmp_path, "run", tmp_path, 60.0)
    seen = []
    for state in (ProcessState.RUNNING, ProcessState.GONE, ProcessState.GONE):
        killed = _sign(state, 29, 1.0)
        killed.lifetime = other
        monkeypatch.setattr(liveness, "_signs", lambda killed=killed: [killed, failed])
        seen.append([finding.code for finding in liveness.look().findings])
    assert seen == [[], [], ["gone"]]


@pytest.mark.parametrize(("is_over", "where"), [(True, "is after step 5"), (False, "is in step 5")])
def test_a_late_rank_whose_step_is_over_is_after_it_as_in_the_postmortem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_over: bool, where: str
) -> None:
    monkeypatch.setattr(collective_places, "clock", lambda: time.monotonic() - 60)
    ranks = Ranks(tmp_path)
    for rank in range(3):
        ranks.passed(rank, 1)
    step = ranks.rings[1].begin(layout.STEP, "", 5)
    if is_over:
        ranks.rings[1].end(step)
    for rank in (0, 2):
        ranks.waits(rank, 2)
    (late,) = standstill.StandstillJudge(0).findings([_sign(ProcessState.RUNNING, 5, 0.5)], ranks.examine(), [])
    assert late.text.startswith(f"Rank 1 {where} and has not entered all_reduce number 2")


def test_a_restart_under_a_given_run_id_leaves_the_death_of_the_launch_before_it_behind(tmp_path: Path) -> None:
    boot = boot_id()
    for launch, manifest in (("0.0.100", {}), ("0.0.200", {"ended_unix_nano": 5, "clean_exit": True})):
        folder = tmp_path / "run" / launch
        folder.mkdir(parents=True)
        known = {"format": "otel-rl/1", "run_id": "run", "attempt": launch, "rank": 1, "command": "train.py"}
        # No process has run since so many ticks.
        gone = {"host": "node", "pid": 1, "lifetime": [boot, 1, 10**15, pid_namespace()]}
        (folder / "manifest.json").write_text(json.dumps(known | gone | manifest))
    liveness = Liveness(tmp_path / "run", "run", tmp_path, 60.0)
    liveness.look()
    standing = liveness.look()
    assert (standing.state, standing.findings, len(standing.processes)) == ("ended", [], 1)


@pytest.mark.parametrize(("others", "severity"), [([], "critical"), ([ProcessState.RUNNING], "warning")])
def test_a_program_that_fails_before_its_first_step_is_critical_and_a_helper_of_one_that_runs_is_not(
    others: list[ProcessState], severity: str
) -> None:
    failed = ProcessSign("process 7", None, "node", 7, ProcessState.ENDED, cause="uncaught ValueError")
    runs = [ProcessSign("process 8", None, "node", 8, state) for state in others]
    (death,) = standstill.deaths([failed, *runs], {})
    assert death.severity.value == severity


def test_of_ranks_that_fail_the_one_that_ended_first_is_named_whatever_sign_it_gave_last() -> None:
    culprit, victim = (
        ProcessSign(f"rank {rank}", rank, "n", rank, ProcessState.ENDED, silent=silent, cause=cause, ended=ended)
        for rank, silent, cause, ended in ((1, 1.0, "uncaught KeyError", 5), (0, 3.0, "uncaught RuntimeError", 6))
    )
    (death,) = standstill.deaths([victim, culprit], {})
    assert death.text == "Rank 1 failed: uncaught KeyError."


@pytest.mark.parametrize(("seconds", "told"), [(59.0, False), (90.0, True)])
def test_a_process_that_is_in_one_part_of_the_run_for_longer_than_the_limit_waits(seconds: float, told: bool) -> None:
    sign = _sign(ProcessState.RUNNING, None, seconds)
    sign.part, sign.part_seconds = f"before the first step, in the loading of a model for {seconds:.0f} s", seconds
    found = standstill.StandstillJudge(60).findings([sign], None, [])
    assert [finding.code for finding in found] == ["waiting"] * told
    for finding in found:
        assert finding.text == "Rank 1 waits, before the first step, in the loading of a model for 90 s."
        assert finding.severity.value == "warning"
