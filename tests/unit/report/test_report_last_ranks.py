"""Who came last on NCCL: what the report says of the device times of all ranks, and where there are none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import Job, examined

from otel_rl.report import write_report
from otel_rl.report.core.finding import CheckState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.report.core.finding import Check, Finding

GROUP = "0\tdefault_pg\t0-1"
SHORT, LONG = 0.002, 0.032
PREFIX = "torch.distributed.collective."


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Steps of two ranks in which no host waits."""
    job = Job(tmp_path / tmp_path.name, lambda _step, _rank: {"train": 0.2}, noise=0.0)
    job.write()
    return job


def tell(job: Job, seconds: Callable[[int, int], float], groups: tuple[str, ...] = (GROUP,), **other: Any) -> None:
    """Write the times of 20 collectives of each rank, one every 0.1 s, into a job that has been written."""
    numbers = list(range(1, 21))
    for rank, writer in enumerate(job.writers):
        columns = {
            "group": [0] * len(numbers),
            "number": numbers,
            "operation": ["all_reduce"] * len(numbers),
            "duration": [seconds(number, rank) for number in numbers],
            "created": [writer.at(number / 10) for number in numbers],
            **other.get("columns", {}),
        }
        body = {"torch.distributed.groups": list(groups), **{PREFIX + name: values for name, values in columns.items()}}
        values = {"torch.distributed.timing": "on", "torch.distributed.collectives.left_out": 30}
        writer.event("torch.distributed.collectives", 3, body=body, attributes=values)
        writer.write()


def tell_state(job: Job, state: str) -> None:
    for writer in job.writers:
        writer.event("torch.distributed.collectives", 1, attributes={"torch.distributed.timing": state})
        writer.write()


def late(job: Job) -> list[Finding]:
    return [finding for finding in examined(job.folder).findings if finding.code == "late_rank"]


def check(job: Job) -> Check:
    (found,) = (check for check in examined(job.folder).checks if check.what == "late ranks")
    return found


def page(job: Job, tmp_path: Path) -> str:
    text = write_report(job.folder, tmp_path / "page.html").output.read_text(encoding="utf-8")
    return " ".join(re.sub("<[^>]+>", " ", text).split())


def test_the_rank_that_came_last_is_named_with_an_upper_bound_and_never_as_working_longer(job: Job) -> None:
    tell(job, lambda _number, rank: SHORT if rank == 1 else LONG)

    (finding,) = late(job)
    assert finding.ranks == [1]
    assert finding.text == (
        "Rank 1 came last in 20 of the 20 collectives in which ranks waited long: the others waited for it at most"
        " 30 ms in each, at most 32 % of their time, mostly in all_reduce of group default_pg."
    )
    assert "works longer" not in " ".join([finding.text, *finding.evidence])
    assert finding.cost == pytest.approx(20 * 0.030 / 1.9, rel=0.01)


def test_the_page_has_a_table_of_who_came_last_and_says_what_is_missing(job: Job, tmp_path: Path) -> None:
    tell(job, lambda _number, rank: SHORT if rank == 1 else LONG)

    text = page(job, tmp_path)
    assert "Who came last, by the devices" in text
    assert "Up to 60 have no times, over all ranks." in text


def test_ranks_that_come_last_in_turns_are_no_finding(job: Job) -> None:
    tell(job, lambda number, rank: SHORT if rank == number % 2 else LONG)

    assert not late(job)
    assert check(job).state is CheckState.CHECKED


def test_waits_that_take_little_time_are_no_finding(job: Job) -> None:
    tell(job, lambda number, rank: 0.002 if rank == 1 else 0.0021)

    assert not late(job)


def test_a_collective_that_not_all_ranks_have_timed_is_no_evidence(job: Job) -> None:
    tell(job, lambda _number, rank: SHORT if rank == 1 else LONG, groups=("0\tdefault_pg\t0-3",))

    assert not late(job)
    assert check(job).state is CheckState.NOT_RECORDED


def test_what_the_check_rests_on_is_said(job: Job) -> None:
    tell(job, lambda _number, rank: LONG)

    assert check(job).detail == "20 collectives of NCCL, timed by all their ranks"


def test_without_timing_the_report_says_how_to_switch_it_on(job: Job, tmp_path: Path) -> None:
    tell_state(job, "off")

    assert check(job).state is CheckState.NOT_RECORDED
    assert check(job).detail == "nothing can be said of who is late on NCCL without OTEL_RL_NCCL_TIMING=on"
    assert "OTEL_RL_NCCL_TIMING=on" in page(job, tmp_path)


@pytest.mark.parametrize(("state", "words"), [("refused", "standard error"), ("unavailable", "this PyTorch")])
def test_a_state_that_keeps_the_times_away_is_said(job: Job, state: str, words: str) -> None:
    tell_state(job, state)

    assert words in check(job).detail


@pytest.mark.parametrize(
    "columns",
    [
        {"group": [7] * 20},
        {"group": None},
        {"number": ["1"] * 20},
        {"number": [-1] * 20},
        {"duration": [float("nan")] * 20},
        {"duration": [-1.0] * 20},
        {"created": []},
        {"operation": 5},
    ],
)
def test_columns_that_make_no_sense_are_no_evidence(job: Job, columns: dict[str, Any]) -> None:
    tell(job, lambda _number, rank: SHORT if rank == 1 else LONG, columns=columns)

    assert not late(job)


def test_hosts_that_wait_are_compared_as_before(job: Job) -> None:
    assert "NCCL" not in check(job).detail
