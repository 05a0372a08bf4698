"""What the watchdog takes for a hang between guessed steps, with real rings and a clock of the test."""

from __future__ import annotations

import pytest
from unit.ranks.test_what_is_a_hang import SCOPE, Program, alone

from otel_rl.flight_recorder import collective_places, layout, reader
from otel_rl.flight_recorder import ring as ring_module
from otel_rl.flight_recorder.ring import create
from otel_rl.ranks.watchdog import thread, waits_between_steps
from otel_rl.ranks.watchdog.step_times import FIRST_STEPS
from otel_rl.semconv import spans
from otel_rl.telemetry import progress
from otel_rl.training import steps
from otel_rl.training.guessed_loop import GuessedLoop
from otel_rl.training.phases import Phase

__all__ = ["alone"]
ALL = "0\tdefault_pg\t0-1"


class TwoRanks(Program):
    """This process is rank 0 and makes guessed steps; rank 1 is another ring beside its own."""

    def __init__(self, monkeypatch, folder):
        super().__init__(monkeypatch)
        self.loop = GuessedLoop()
        # Another test of this process may have marked its steps.
        monkeypatch.setattr(steps, "may_guess", True)
        monkeypatch.setattr(waits_between_steps, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(collective_places, "clock", lambda: self.seconds)
        self.rings = [create(folder, f"otel-rl-run-{rank}") for rank in range(2)]
        for rank, ring in enumerate(self.rings):
            ring.identify("run", "0.0.0", "node", (rank, 2, rank))
        monkeypatch.setattr(thread.flight, "ring", self.rings[0])
        # Not before: a ring without a heartbeat was made when the test began.
        monkeypatch.setattr(ring_module, "clock", lambda: round(self.seconds * 1e9))

    def trains_guessed(self, number=FIRST_STEPS, seconds=1):
        self.trains(number - 1, seconds)
        self.loop.finish()
        for rank in range(2):
            self.rings[rank].end(self.enters(rank, number=1))
        self.passes(1)

    def enters(self, rank, operation="all_gather", number=2):
        ring = self.rings[rank]
        ring.end(ring.begin(layout.COLLECTIVE, operation, 0, ALL, number))
        return ring.begin(layout.WAIT, operation, 0, ALL, number)

    def sees_hang(self, rank):
        return bool(reader.read(self.rings[rank].path).hangs_since)

    def calls(self, rank, seconds, kind=layout.TOOL):
        """Make calls of a second, one after the other."""
        for _ in range(seconds):
            call = self.rings[rank].begin(kind, "call")
            self.passes(1)
            self.rings[rank].end(call)

    def line(self):
        (line,) = self.lines
        return line.split(" may hang: ")[1].split("; `otel-rl")[0]


@pytest.fixture
def job(recorded, alone, monkeypatch, tmp_path):
    job = TwoRanks(monkeypatch, tmp_path)
    yield job
    job.stop()


def test_a_rank_that_waits_in_a_collective_between_guessed_steps_hangs_and_is_reported_once(job, recorded):
    job.trains_guessed()
    waiting = job.enters(0)
    job.passes(59)
    assert job.lines == []
    job.passes(200)
    assert job.line() == "no progress for 60 s after step 5, waits in all_gather number 2 of group default_pg"
    (event,) = recorded.events("rl.hang")
    assert event.attributes["rl.loop.iteration"] == FIRST_STEPS
    assert job.sees_hang(0)
    job.rings[0].end(waiting)
    job.begin_step()
    job.passes(1)
    assert not job.sees_hang(0)
    assert job.lines[1].endswith("goes on after 259 s without progress")


def test_the_rank_that_does_not_come_hangs_too_and_says_who_waits_for_it(job, recorded):
    job.trains_guessed()
    waiting = job.enters(1)
    job.passes(300)
    # What it waits in may be the begin of a gather, which only its own watchdog can tell.
    assert job.lines == []
    job.rings[1].hangs(sees_hang=True)
    job.passes(100)
    assert job.line().endswith("s after step 5; rank 1 waits for it in all_gather number 2 of group default_pg")
    assert len(recorded.events("rl.hang")) == 1
    job.rings[1].end(waiting)


def test_a_rank_that_has_entered_the_collective_of_its_peer_is_not_waited_for(job):
    job.trains_guessed()
    entered = [job.enters(1), job.enters(0)]
    job.rings[1].hangs(sees_hang=True)
    job.rings[0].end(entered[1])
    job.passes(500)
    assert job.lines == []


def test_standing_still_between_guessed_steps_is_no_hang_while_nobody_waits(job):
    job.trains_guessed()
    job.passes(2000)
    assert job.lines == []


@pytest.mark.parametrize("operation", ["barrier", "broadcast", "gather", "scatter"])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_rank_may_work_alone_while_the_others_wait_for_it_as_at_the_end_of_training(job, operation, rank):
    job.trains_guessed()
    waiting = job.enters(rank, operation)
    job.rings[1].hangs(sees_hang=rank == 1)
    job.passes(2000)
    assert job.lines == []
    job.rings[rank].end(waiting)


def test_after_long_work_of_its_own_a_rank_waits_for_others_three_times_as_long(job):
    job.trains_guessed()
    job.passes(100)
    waiting = job.enters(0, "all_reduce")
    job.passes(290)
    assert job.lines == []
    job.passes(100)
    assert "waits in all_reduce number 2" in job.line()
    job.rings[0].end(waiting)


def test_calls_and_phases_and_collectives_of_other_groups_are_a_part_of_that_work(job):
    job.trains_guessed()
    job.calls(0, 50)
    job.rings[0].end(job.rings[0].begin(layout.PHASE, "reward"))
    job.rings[0].end(job.rings[0].begin(layout.WAIT, "all_reduce", 0, "1\tpair\t0", 1))
    job.calls(0, 50)
    waiting = job.enters(0)
    job.passes(290)
    assert job.lines == []
    job.passes(100)
    assert "waits in all_gather number 2" in job.line()
    job.rings[0].end(waiting)


@pytest.mark.parametrize("kind", [layout.STEP, layout.WAIT])
def test_that_work_begins_after_the_last_step_and_the_last_collective_of_the_group(job, kind):
    job.trains_guessed()
    job.passes(100)
    ring = job.rings[0]
    ring.end(ring.begin(layout.STEP, "", 6) if kind == layout.STEP else job.enters(0))
    job.passes(5)
    waiting = job.enters(0, number=3)
    job.passes(100)
    assert "waits in all_gather number 3" in job.line()
    ring.end(waiting)


def test_a_rank_that_waits_for_one_that_records_calls_does_not_hang_until_they_end(job):
    job.trains_guessed()
    waiting = job.enters(0)
    job.calls(1, 500)
    assert job.lines == []
    job.passes(59)
    assert job.lines == []
    job.passes(150)
    assert "waits in all_gather number 2" in job.line()
    job.rings[0].end(waiting)


def test_a_rank_that_has_come_and_records_calls_does_not_excuse_the_one_that_is_late(job):
    job.trains_guessed()
    waiting = job.enters(0)
    come = job.enters(1)
    job.rings[1].end(come)
    job.calls(1, 70)
    assert "waits in all_gather number 2" in job.line()
    job.rings[0].end(waiting)


def test_a_helper_that_records_calls_does_not_excuse_a_late_rank_of_a_group_whose_ranks_are_not_known(job, monkeypatch):
    monkeypatch.setitem(globals(), "ALL", "0\tdefault_pg\t?2")
    job.trains_guessed()
    helper = create(job.rings[0].path.parent, "otel-rl-run-helper")
    helper.identify("run", "0.0.0", "node", (-1, 2, -1))
    job.rings.append(helper)
    # The late rank is on another node.
    job.rings[1].path.unlink()
    waiting = job.enters(0)
    job.calls(2, 100)
    assert "waits in all_gather number 2" in job.line()
    job.rings[0].end(waiting)


def test_a_rank_that_waits_for_the_answer_of_a_model_works_for_ten_times_as_long(job):
    job.trains_guessed()
    waiting, call = job.enters(0), job.rings[1].begin(layout.MODEL_CALL, "ask")
    job.passes(590)
    assert job.lines == []
    job.passes(200)
    assert "waits in all_gather number 2" in job.line()
    job.rings[0].end(waiting)
    job.rings[1].end(call)


def test_a_wait_of_twice_the_longest_step_is_none(job):
    job.trains_guessed()
    job.begin_step()
    for _ in range(4):
        job.passes(50)
        progress.call_ended()
    job.loop.finish()
    job.rings[0].end(job.enters(0))
    job.passes(1)
    waiting = job.enters(0, number=3)
    job.passes(395)
    assert job.lines == []
    job.passes(110)
    assert len(job.lines) == 1
    job.rings[0].end(waiting)


def test_before_enough_guessed_steps_and_where_the_program_marks_them_no_wait_is_a_hang(job, monkeypatch):
    job.trains_guessed(FIRST_STEPS - 1)
    waiting = job.enters(0)
    job.passes(500)
    assert job.lines == []
    job.begin_step()
    job.loop.finish()
    monkeypatch.setattr(steps, "may_guess", False)
    job.passes(500)
    assert job.lines == []
    job.rings[0].end(waiting)


@pytest.mark.parametrize("kind", [spans.RL_CHECKPOINT, spans.RL_EVALUATE])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_checkpoint_and_an_evaluation_of_either_rank_may_be_long(job, kind, rank):
    job.trains_guessed()
    phase = Phase(kind, SCOPE) if rank == 0 else None
    if phase is not None:
        phase.start()
    else:
        opened = job.rings[1].begin(layout.PHASE, {spans.RL_CHECKPOINT: "checkpoint"}.get(kind, "evaluate"))
    waiting = job.enters(1 - rank)
    job.passes(500)
    assert job.lines == []
    job.rings[1 - rank].end(waiting)
    if phase is not None:
        phase.close()
    else:
        job.rings[1].end(opened)


def test_the_rings_are_read_more_seldom_the_longer_nobody_waits(job, monkeypatch):
    reads, find = [], waits_between_steps.find
    monkeypatch.setattr(waits_between_steps, "find", lambda *given: reads.append(job.seconds) or find(*given))
    job.trains_guessed()
    job.passes(3600)
    assert 10 < len(reads) < 25
