"""Which waits at the end of a job are unusual: rings of the product's own writer, with a clock of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.ranks.written_ranks import ALL, Ranks
from unit.report.made_up_jobs import STARTED
from unit.report.synthetic_run import process

from otel_rl.flight_recorder import collective_places, layout, ring
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.flight_rings import STUCK, FlightRings
from otel_rl.report.subjects import load, overview
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


class Job:
    """Three ranks that train in step with each other, of which rank 1 comes last."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(ring, "clock", lambda: round(self.now * SECOND))
        monkeypatch.setattr(collective_places, "clock", lambda: self.now)
        self.ranks, self.number = Ranks(folder), 0

    def trains(self, steps: int, seconds: float, wait: float = 0.0) -> None:
        """Make steps of this length, in which ranks 0 and 2 wait for rank 1."""
        for _ in range(steps):
            self.number += 1
            opened = [one.begin(layout.STEP, "", self.number) for one in self.ranks.rings]
            self.now += seconds - wait
            waiting = [self._enters(rank) for rank in (0, 2)]
            self.now += wait
            last = self._enters(1)
            for one, handle in zip((0, 2, 1), (*waiting, last), strict=True):
                self.ranks.rings[one].end(handle)
            for one, handle in zip(self.ranks.rings, opened, strict=True):
                one.end(handle)

    def is_stopped(self, after: float, phase: str = "", *, in_step: bool = True) -> None:
        """End all ranks as SIGTERM does, when ranks 0 and 2 have waited so long for rank 1, which is in ``phase``."""
        self.number += 1
        if in_step:
            for rank in range(3):
                self.ranks.opens(rank, layout.STEP, "", self.number)
        if phase:
            self.ranks.opens(1, layout.PHASE, phase)
        for rank in (0, 2):
            self.ranks.handles.append(self._enters(rank))
        self.now += after
        for one in self.ranks.rings:
            one.finish("")

    def _enters(self, rank: int) -> object:
        self.ranks.passed(rank, self.number)
        return self.ranks.rings[rank].begin(layout.WAIT, "all_reduce", 0, ALL, self.number)

    @property
    def ended_badly(self) -> bool:
        return FlightRings(None, self.ranks.examine()).ended_badly


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


@pytest.mark.parametrize(("after", "is_bad"), [(0.5, False), (5.0, False), (17.8, True), (39.0, True)])
def test_a_job_with_short_steps_ended_badly_where_ranks_had_waited_for_many_of_them(
    job: Job, after: float, *, is_bad: bool
) -> None:
    job.trains(22, 0.3)
    job.is_stopped(after)
    assert job.ended_badly is is_bad


@pytest.mark.parametrize(("after", "is_bad"), [(17.8, False), (STUCK + 1, True)])
def test_a_rank_may_work_alone_for_longer_between_two_steps(job: Job, after: float, *, is_bad: bool) -> None:
    job.trains(22, 0.3)
    job.is_stopped(after, in_step=False)
    assert job.ended_badly is is_bad


@pytest.mark.parametrize(("after", "is_bad"), [(40.0, False), (59.0, False), (70.0, True)])
def test_a_job_with_long_steps_may_be_stopped_in_a_wait_of_a_step(job: Job, after: float, *, is_bad: bool) -> None:
    job.trains(8, 60.0)
    job.is_stopped(after)
    assert job.ended_badly is is_bad


@pytest.mark.parametrize(("after", "is_bad"), [(40.0, False), (70.0, True)])
def test_a_wait_is_compared_with_those_that_the_job_had_before(job: Job, after: float, *, is_bad: bool) -> None:
    job.trains(8, 21.0, wait=20.0)
    job.is_stopped(after)
    assert job.ended_badly is is_bad


def test_that_the_first_step_was_long_hides_no_longer_wait(job: Job) -> None:
    job.trains(1, 300.0, wait=200.0)
    job.trains(8, 0.3)
    job.is_stopped(STUCK + 1)
    assert job.ended_badly


@pytest.mark.parametrize(("after", "is_bad"), [(20.0, False), (STUCK + 1, True)])
def test_a_rank_that_saves_a_checkpoint_may_keep_the_others_waiting_for_longer(
    job: Job, after: float, *, is_bad: bool
) -> None:
    job.trains(22, 0.3)
    job.is_stopped(after, "checkpoint")
    assert job.ended_badly is is_bad


@pytest.mark.parametrize(("after", "is_bad"), [(20.0, False), (STUCK + 1, True)])
def test_where_few_steps_tell_what_is_usual_the_limit_is_fixed(job: Job, after: float, *, is_bad: bool) -> None:
    job.trains(2, 0.3)
    job.is_stopped(after)
    assert job.ended_badly is is_bad


@pytest.mark.parametrize(
    ("after", "phase", "inside"),
    [(5.0, "", ""), (17.8, "", "What rank 1 did is not known"), (17.8, "evaluate", "Rank 1 was in evaluate.")],
)
def test_a_job_stopped_while_a_rank_was_awaited_between_two_steps_says_for_how_long(
    tmp_path: Path, job: Job, after: float, phase: str, inside: str
) -> None:
    for rank in range(3):
        writer = process(tmp_path / "run", rank, started=STARTED, world_size=3)
        writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 22})
        writer.event("rl.run.end", 3, attributes={"rl.run.end.signal": "SIGTERM"})
        writer.write()
    job.trains(22, 0.3)
    job.is_stopped(after, phase, in_step=False)
    found = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None)
    found.rings = FlightRings(None, job.ranks.examine())
    said = [one for one in overview.examine(found).findings if one.code == "ended"]

    assert {one.severity for one in said} == {"notice"}
    texts = [one.text for one in said if one.text.startswith("When the job was stopped")]
    assert len(texts) == bool(inside)
    assert all("had waited 17.8 s for rank 1 to enter all_reduce number 23" in text for text in texts)
    assert all(inside in text for text in texts)
