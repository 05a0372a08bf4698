"""The rank that the others wait for: from the records, and as the job told while it ran."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf, nan
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.reward_readers import tables_of
from unit.report.made_up_jobs import Job, examined

from otel_rl.ranks.stragglers.comparison import LateTogether, StepComparison
from otel_rl.ranks.stragglers.lasting import chance
from otel_rl.ranks.stragglers.meetings import Place
from otel_rl.ranks.stragglers.run import RunComparison
from otel_rl.ranks.stragglers.timeline import StepKey
from otel_rl.report import write_report
from otel_rl.report.core import human
from otel_rl.report.core.loops import Loops
from otel_rl.report.subjects.ranks import finding, last_steps, late_rank_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Finding

PHASES = {"sample": 0.4, "train": 0.2}


def _alike(_step: int, _rank: int) -> dict[str, float]:
    return PHASES


def _tell(job: Job, since: int, until: int | None = None, writer: int = 0, **values: Any) -> None:
    """Write what a rank tells of a late rank into a job that has been written."""
    told = {
        "rl.straggler.rank": 1,
        "rl.straggler.host": "node-0",
        "rl.straggler.lost_time": 0.15,
        "rl.straggler.lost_share": 0.2,
        "rl.straggler.first_iteration": since,
        "rl.phase": "train",
        "torch.distributed.operation": "all_reduce",
        **{name.replace("__", "."): value for name, value in values.items()},
    }
    teller = job.writers[writer]
    teller.event("rl.straggler", since, attributes={**told, "rl.loop.iteration": since + 7}, severity=13)
    if until is not None:
        teller.event("rl.straggler.end", max(since, until), attributes={**told, "rl.loop.iteration": until})
    teller.write()


def _late(job: Job) -> list[Finding]:
    return [one for one in examined(job.folder).findings if one.code == "late_rank"]


def _late_or_explained(job: Job) -> list[Finding]:
    """The same, also below the change that tells the reason: that the rank works longer since a step."""
    findings = examined(job.folder).findings
    return [one for finding in findings for one in (finding, *finding.symptoms) if one.code == "late_rank"]


def _page(job: Job, tmp_path: Path) -> str:
    page = write_report(job.folder, tmp_path / "page.html").output.read_text(encoding="utf-8")
    return " ".join(re.sub("<[^>]+>", " ", page).split())


@dataclass
class NumberedJob(Job):
    """Its steps have other numbers than 1, 2, 3; of steps with the number None nothing was traced."""

    numbers: Callable[[int], int | None] = lambda step: step

    def _step(self, step: int, *values: Any) -> None:
        number = self.numbers(step)
        if number is not None:
            super()._step(number, *values)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Forty steps of two ranks that work alike."""
    job = Job(tmp_path / tmp_path.name, _alike)
    job.write()
    return job


def test_a_rank_that_was_late_for_a_while_is_said_with_its_steps_phase_and_cost(job: Job) -> None:
    _tell(job, 11, 20)
    [one] = _late(job)
    assert one.text == (
        "Rank 1 was late from step 11 to 20, as was told while the job ran: it worked longer in phase train. Without it"
        " each step would have been 150 ms (20 %) shorter for the others, who waited in all_reduce."
    )
    assert (one.onset, one.ranks, one.severity) == (11, [1], "warning")
    assert one.cost == pytest.approx(0.2 * 10 / 40)


def test_one_that_is_not_over_lasts_to_the_last_step(job: Job) -> None:
    _tell(job, 21, **{"rl.phase": None, "torch.distributed.operation": None})
    [one] = _late(job)
    assert "late since step 21, as was told while the job ran: it worked longer outside of all phases" in one.text
    assert one.text.endswith("shorter for the others.")
    assert one.cost == pytest.approx(0.2 * 20 / 40)


def test_several_stretches_of_a_rank_are_one_finding(job: Job) -> None:
    _tell(job, 2, 11)
    _tell(job, 15, 24, rl__straggler__lost_time=0.3, rl__straggler__lost_share=0.4)
    [one] = _late(job)
    assert "late from step 2 to 24, in 2 stretches, as was told " in one.text
    assert "up to 300 ms (40 %) shorter" in one.text
    assert one.onset == 2
    assert one.cost == pytest.approx((0.2 * 10 + 0.4 * 10) / 40)


def test_ranks_that_were_late_one_after_the_other_are_two_findings_the_dearer_first(job: Job) -> None:
    _tell(job, 2, 11)
    _tell(job, 20, 35, rl__straggler__rank=0)
    assert [one.ranks for one in _late(job)] == [[0], [1]]


@pytest.mark.parametrize(("lost", "codes"), [(0.01, []), (0.5, ["late_rank"])])
def test_what_cost_little_and_is_over_is_said_as_a_notice_or_not_at_all(
    job: Job, lost: float, codes: list[str]
) -> None:
    _tell(job, 11, 18, rl__straggler__lost_time=lost, rl__straggler__lost_share=0.1)
    found = _late(job)
    assert [one.code for one in found] == codes
    assert all(one.severity == "notice" for one in found)


@pytest.mark.parametrize(("late_from", "onset", "when"), [(13, 13, "since"), (1, None, "in the compared steps since")])
def test_a_rank_that_is_late_all_along_has_no_onset_by_what_the_job_told(
    tmp_path: Path, late_from: int, onset: int | None, when: str
) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.6 if rank == int(step >= late_from) else 0.4}

    job = Job(tmp_path / tmp_path.name, phases)
    job.write()
    before = next(one for one in _late_or_explained(job) if one.ranks == [1])
    _tell(job, 13)
    one, *others = sorted(_late_or_explained(job), key=lambda one: -one.ranks[0])
    assert one.text == before.text
    # Before that it was the other one.
    assert ["most work of its own in 12 of 12 steps from step 1 to 12" in other.text for other in others] == [
        True
    ] * bool(onset)
    assert (before.onset, one.onset) == (onset, onset)
    late, since = (28, " since step 13") if onset else (40, "")
    assert f"most work of its own in {late} of {late} steps{since}, 20" in one.text
    assert f"Rank 1 was late {when} step 13" in one.evidence[-1]


def test_a_first_step_that_warms_up_longer_on_another_rank_is_no_onset(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 2.0 * (1 - rank) if step == 1 else 0.4 + 0.2 * rank}

    job = Job(tmp_path / tmp_path.name, phases)
    job.write()
    one = next(one for one in _late_or_explained(job) if one.ranks == [1])
    assert one.onset is None
    assert "most work of its own in 39 of 39 steps, " in one.text


def test_of_guessed_steps_it_is_not_said_that_a_rank_works_longer_in_no_phase(tmp_path: Path) -> None:
    """The flight recorders, by which the job tells it, do not know their phases."""
    job = Job(tmp_path / tmp_path.name, _alike, source="guessed")
    job.write()
    _tell(job, 21, **{"rl.phase": None})
    [one] = _late(job)
    assert "late since step 21, as was told while the job ran. Without it" in one.text
    assert f"20 % all_reduce {human.UNKNOWN} " in _page(job, tmp_path)


def test_a_rank_that_evaluates_in_every_second_step_costs_its_share_of_all_steps(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "evaluate": 5.4 if rank == 0 and step % 2 == 0 else 0.02 * (1 - rank)}

    job = Job(tmp_path / tmp_path.name, phases)
    job.write()
    [one] = _late_or_explained(job)
    assert one.cost is not None
    assert 0.75 < one.cost < 0.85


def test_a_single_long_step_does_not_make_the_usual_lateness_longer(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 30.0 if rank == step == 1 else 0.5 if rank == 1 else 0.4}

    job = Job(tmp_path / tmp_path.name, phases)
    job.write()
    [one] = _late(job)
    assert re.search(r" 10\d ms more per step \(15 % of a step\)", one.text)


def test_a_change_that_the_records_show_has_it_below(tmp_path: Path) -> None:
    def phases(step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.9 if rank == 1 and 11 <= step <= 20 else 0.4}

    job = Job(tmp_path / tmp_path.name, phases)
    job.write()
    _tell(job, 11, 20)
    [one] = [one for one in examined(job.folder).findings if one.severity != "notice"]
    assert one.code == "slower_phase"
    assert "late_rank" in [symptom.code for symptom in one.symptoms]


def test_what_was_told_of_other_steps_is_in_the_table_and_no_finding_on_those_that_are_shown(
    job: Job, tmp_path: Path
) -> None:
    _tell(job, 11, rl__loop__name="teacher")
    _tell(job, 12, 30)
    assert [one.onset for one in _late(job)] == [12]
    page = " ".join(write_report(job.folder, tmp_path / "page.html").output.read_text(encoding="utf-8").split())
    assert "Late ranks, as told while the job ran" in page
    assert "loop teacher" in page
    assert "the steps above" in page
    assert "rank 1 (node-0)" in page


def test_it_is_said_of_a_run_without_traces_of_steps_too(tmp_path: Path) -> None:
    job = Job(tmp_path / tmp_path.name, _alike, steps=0)
    job.write()
    _tell(job, 11, 18)
    [one] = _late(job)
    assert (one.onset, one.cost, one.severity) == (11, None, "warning")


def test_a_loop_that_counts_samples_is_judged_by_its_steps(tmp_path: Path) -> None:
    job = NumberedJob(tmp_path / tmp_path.name, _alike, numbers=lambda step: 1 + 2048 * (step - 1))
    job.write()
    _tell(job, 1 + 2048 * 10, 1 + 2048 * 17, rl__straggler__lost_time=0.01, rl__straggler__lost_share=0.1)
    # 2 % of the steps' time, and 80 ms in all.
    assert _late(job) == []
    _tell(job, 1 + 2048 * 20, 1 + 2048 * 27, rl__straggler__lost_time=0.5)
    [one] = _late(job)
    assert one.cost == pytest.approx((0.1 * 8 + 0.2 * 8) / 40)


def test_the_cost_is_not_known_where_none_of_the_late_steps_was_traced(tmp_path: Path) -> None:
    job = NumberedJob(tmp_path / tmp_path.name, _alike, numbers=lambda step: None if 11 <= step <= 20 else step)
    job.write()
    _tell(job, 11, 18)
    [one] = _late(job)
    assert (one.onset, one.cost, one.severity) == (11, None, "warning")


def test_what_was_told_is_no_finding_where_the_numbers_of_the_steps_began_again(tmp_path: Path) -> None:
    job = NumberedJob(tmp_path / tmp_path.name, _alike, steps=80, numbers=lambda step: (step - 1) % 40 + 1)
    job.write()
    _tell(job, 11, 25)
    assert _late(job) == []
    assert "the steps above, or those before their numbers began again" in _page(job, tmp_path)


def test_a_stretch_whose_end_was_lost_ends_before_the_next_one_of_the_rank(job: Job, tmp_path: Path) -> None:
    _tell(job, 2)
    _tell(job, 30, 37)
    [one] = _late(job)
    assert "late from step 2 to 37, in 2 stretches" in one.text
    assert one.cost == pytest.approx(0.2 * (28 + 8) / 40)
    assert "29 at the latest" in _page(job, tmp_path)


def test_the_stretch_of_another_rank_ends_none(job: Job) -> None:
    _tell(job, 21)
    _tell(job, 30, 37, rl__straggler__rank=0, rl__straggler__lost_time=0.5)
    assert {one.ranks[0]: one.cost for one in _late(job)} == pytest.approx({1: 0.2 * 20 / 40, 0: 0.2 * 8 / 40})


@pytest.mark.parametrize(("since", "until", "last"), [(11, 20, 20), (12, 25, 25), (11, None, None), (13, 18, 20)])
def test_steps_of_which_two_processes_told_count_once(
    job: Job, since: int, until: int | None, last: int | None
) -> None:
    _tell(job, 11, 20)
    _tell(job, since, until, writer=1)
    [one] = _late(job)
    assert one.cost == pytest.approx(0.2 * ((last or 40) - 10) / 40)
    assert (f"late from step 11 to {last}, as" if last else "late since step 11, as") in one.text


def test_two_processes_may_both_miss_the_end(job: Job) -> None:
    _tell(job, 11)
    _tell(job, 11, writer=1)
    [one] = _late(job)
    assert one.cost == pytest.approx(0.2 * 30 / 40)


def test_an_end_before_the_first_step_is_not_known_and_one_step_counts(job: Job) -> None:
    _tell(job, 30, 5, rl__straggler__lost_time=4.0)
    [one] = _late(job)
    assert "late from step 30 to 30, as" in one.text
    assert one.cost == pytest.approx(0.2 / 40)


@pytest.mark.parametrize("name", ["rl__straggler__lost_time", "rl__straggler__lost_share"])
@pytest.mark.parametrize("value", [None, nan, inf, 0, 0.0, -0.2, True, "0.2"])
def test_an_event_that_does_not_say_what_was_lost_is_left_out(
    job: Job, tmp_path: Path, name: str, value: object
) -> None:
    _tell(job, 11, 20, **{name: value})
    assert _late(job) == []
    assert "as told while the job ran" not in _page(job, tmp_path)


@pytest.mark.parametrize("missing", ["rl.straggler.rank", "rl.straggler.first_iteration"])
def test_an_event_without_rank_or_step_is_left_out(job: Job, missing: str) -> None:
    _tell(job, 11, 20, **{missing: None})
    assert _late(job) == []


def test_no_more_than_a_thousand_are_kept_and_the_rest_is_counted(job: Job, tmp_path: Path) -> None:
    writer = job.writers[0]
    for number in range(1003):
        told = {"rl.straggler.rank": 1, "rl.straggler.first_iteration": number, "rl.loop.iteration": number + 7}
        told |= {"rl.straggler.lost_time": 0.15, "rl.straggler.lost_share": 0.2}
        for name in ("rl.straggler", "rl.straggler.end"):
            writer.event(name, 1.0, attributes=told)
    writer.write()
    page = " ".join(write_report(job.folder, tmp_path / "page.html").output.read_text(encoding="utf-8").split())
    assert "3 further ones not listed." in page


def _last_steps(late: Iterable[tuple[int, float]]) -> Collected:
    """The rank that is late in each of the last steps, and the share that it costs; two ranks meet."""
    steps = [
        StepComparison(
            StepKey("", number), 1.0, cost, {},
            (LateTogether(Place("world", "train"), "all_reduce", (rank,), 2, cost, cost, (cost,), ("train",)),),
        )
        for number, (rank, cost) in enumerate(late)
    ]  # fmt: skip
    return SimpleNamespace(
        rings=SimpleNamespace(comparison=RunComparison(steps, {})), steps=Loops(tables_of()).main, totals=None
    )


@pytest.mark.parametrize(("shares", "is_said"), [([0.1] * 20, True), ([0.01] * 19 + [0.9], False)])
def test_a_rank_that_was_late_by_much_in_one_of_the_last_steps_only_is_not_said(
    shares: list[float], is_said: bool
) -> None:
    assert bool(last_steps.late_ranks(_last_steps((1, share) for share in shares), ())) is is_said


@pytest.mark.parametrize(("late", "is_said"), [(29, True), (26, True), (20, False), (19, False)])
def test_a_rank_that_is_late_as_often_as_chance_makes_one_is_not_said(late: int, is_said: bool) -> None:
    """19 and 20 of 29 steps, as of two ranks that did the same on a busy machine."""
    ranks = [int(number * late // 29 != (number + 1) * late // 29) for number in range(29)]
    assert ranks.count(1) == late
    assert bool(last_steps.late_ranks(_last_steps((rank, 0.2) for rank in ranks), ())) is is_said


def test_steps_before_the_first_late_one_and_after_the_last_are_not_counted() -> None:
    """Rank 1 is late in the steps 20 to 49; before and after it nobody is late by more than noise."""
    collected = _last_steps((1, 0.3) if 20 <= number < 50 else (number % 2, 0.01) for number in range(80))
    [one] = last_steps.findings(collected, last_steps.late_ranks(collected, ()))
    assert one.text == (
        "Rank 1 worked longer than the fastest in phase train in 30 of 30 compared steps from step 20 to 49: that cost"
        " the others, who waited in all_reduce, 300 ms (30 %) of each."
    )
    assert one.onset == 20


def test_how_often_a_rank_is_late_is_judged_for_any_number_of_steps() -> None:
    assert chance(60_000, 100_000, 1 / 8) < 1e-9
    assert chance(6, 6, 1 / 2) == pytest.approx(1 / 64)
    assert chance(3, 4, 1 / 2) == pytest.approx(5 / 16)


@pytest.mark.parametrize(
    ("more", "alone"),
    [
        ((0.0, 0.0, 0.2, 0.19), {2: "10", 3: "nothing"}),
        ((0.0, 0.0, 0.2, 0.1), {2: "100", 3: "nothing"}),
        ((0.0, 0.2, 0.18, 0.16), {1: "20", 2: "nothing", 3: "nothing"}),
    ],
)
def test_every_late_rank_is_said_with_its_own_cost_and_what_mending_it_alone_gives(
    tmp_path: Path, more: tuple[float, ...], alone: dict[int, str]
) -> None:
    job = Job(tmp_path / tmp_path.name, lambda _, rank: {**PHASES, "reward": 0.1 + more[rank]}, ranks=4, noise=0.0)
    job.write()
    found = {one.ranks[0]: one for one in _late(job)}
    assert found.keys() == alone.keys()
    for rank, one in found.items():
        assert f"in phase reward ({human.duration(0.1 + more[rank])[:2]}" in one.text
        assert re.search(rf"Mending rank {rank} alone gives back {alone[rank]}", one.text), one.text
        assert re.search(r"mended too, 200 ms", one.text), one.text
        assert one.cost is not None
        assert one.cost == pytest.approx(more[rank] / (0.7 + max(more)), abs=0.03)


def test_ranks_that_were_told_to_be_late_together_are_not_said_to_give_all_back_each(job: Job) -> None:
    _tell(
        job, 11, 20, rl__straggler__alone_lost_time=0.01, rl__straggler__all_lost_time=0.16, rl__straggler__beside=[3]
    )
    [one] = _late(job)
    assert one.text.endswith(
        "It cost 150 ms (20 %) of each step for the others, who waited in all_reduce. Mending rank 1 alone gives back"
        " 10 ms; with rank 3 mended too, 160 ms."
    )


def test_steps_whose_collectives_are_no_longer_in_a_ring_are_said_to_be_left_out() -> None:
    collected = _last_steps((1, 0.3) for _ in range(21))
    comparison = collected.rings.comparison
    comparison.not_whole = 38
    said = "ollectives of 38 of 59 steps were no longer in the ring"
    [block] = late_rank_tables.stragglers(collected)
    assert f"C{said}: they are left out." in block.note
    assert finding._not_whole(collected) == f"; c{said}"
    comparison.steps = []
    [block] = late_rank_tables.stragglers(collected)
    assert block.note == "Collectives of 38 of 38 steps were no longer in the ring."


@pytest.mark.parametrize(("wait", "severity"), [(0.18, "notice"), (0.001, "warning")])
def test_a_rank_that_only_waits_for_a_cpu_is_late_by_the_machine(tmp_path: Path, wait: float, severity: str) -> None:
    def phases(_step: int, rank: int) -> dict[str, float]:
        return {**PHASES, "sample": 0.6 if rank == 1 else 0.4}

    job = Job(tmp_path / tmp_path.name, phases)
    job.step_values = lambda _step, rank: {"rl.loop.cpu_wait_time": wait if rank == 1 else 0.001}
    job.write()
    [one] = _late(job)
    assert one.severity == severity
    assert any(sentence.startswith("The machine was busy") for sentence in one.evidence) == (severity == "notice")
