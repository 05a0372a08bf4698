"""Late ranks of a real job are named, live and in the report, with what mending each alone and all of them gives.

How exactly is in `tests/unit/ranks`: other work on the machine delays these ranks too, so that here more may be lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import late_rank_jobs

PROGRAM = Path(__file__).with_name("late_in_turn_program.py")
#: Seconds and share of a step that at least are lost: a late rank sleeps for 0.25 s.
LEAST, LEAST_SHARE = 0.1, 0.15


class Job(NamedTuple):
    """What a job told while it ran, and what the report says of it."""

    folder: Path
    #: The events of all late ranks, and the first one of each.
    events: list[dict[str, Any]]
    first: dict[int, dict[str, Any]]
    findings: dict[int, dict[str, Any]]


def _run(folder: Path, kind: str, steps: int, ranks: int) -> Job:
    late_rank_jobs.run(folder, ranks, PROGRAM, kind, steps)
    events, first = late_rank_jobs.events(folder), {}
    for event in events:
        if event["event"] == "rl.straggler":
            first.setdefault(int(event["rl.straggler.rank"]), event)
    return Job(folder, events, first, late_rank_jobs.late_ranks(folder))


@pytest.fixture(scope="module")
def two_places(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Rank 1 is late in a phase before a collective of Python, rank 0 in the backward pass of DDP."""
    return _run(tmp_path_factory.mktemp("two_places"), "two_places", 30, 2)


@pytest.fixture(scope="module")
def two_of_four(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return _run(tmp_path_factory.mktemp("two_of_four"), "two_of_four", 40, 4)


def test_two_ranks_that_are_late_at_different_places_are_named_with_these(two_places: Job) -> None:
    assert {rank: event["rl.phase"] for rank, event in two_places.first.items()} == {0: "train", 1: "reward"}
    for event in two_places.first.values():
        assert event["torch.distributed.operation"] == "all_reduce"
        assert event["rl.straggler.alone_lost_time"] > LEAST
        assert event["rl.straggler.lost_time"] > LEAST
        assert LEAST_SHARE < event["rl.straggler.lost_share"] < 1


def test_a_late_rank_is_told_once_while_it_is_late(two_places: Job) -> None:
    told = [event["rl.straggler.rank"] for event in two_places.events if event["event"] == "rl.straggler"]
    assert sorted(told) == ["0", "1"]


def test_the_gauges_have_the_late_ranks_and_how_far_apart_ranks_arrive(two_places: Job) -> None:
    shares = late_rank_jobs.gauge(two_places.folder, "rl.straggler.lost_share")
    last = {int(point["rl.straggler.rank"]): value for point, value in shares}
    assert last.keys() == {0, 1}
    assert all(LEAST_SHARE < value < 1 for value in last.values())
    times = late_rank_jobs.gauge(two_places.folder, "rl.straggler.lost_time")
    for point, seconds in times:
        rank = int(point["rl.straggler.rank"])
        of_event = two_places.first[rank]["rl.straggler.lost_time"] / two_places.first[rank]["rl.straggler.lost_share"]
        # The length of a step, about the same over the job; with the gauges for each other it would be its inverse.
        assert of_event / 2.5 < seconds / last[rank] < of_event * 2.5
    spreads = late_rank_jobs.gauge(two_places.folder, "torch.distributed.arrival.spread")
    assert max(value for _, value in spreads) > LEAST
    assert late_rank_jobs.gauge(two_places.folder, "torch.distributed.arrival.wait_share")


def test_the_report_names_both_with_their_places(two_places: Job) -> None:
    assert two_places.findings.keys() == {0, 1}
    for (rank, finding), phase in zip(sorted(two_places.findings.items()), ("train", "reward"), strict=True):
        assert finding["ranks"] == [rank]
        assert f" in phase {phase}" in finding["text"]
        assert finding["cost"] > 0
        # Late from the first step on; before the first step that the job compared there may be none to judge.
        assert finding["onset_step"] in (None, int(two_places.first[rank]["rl.straggler.first_iteration"]))


def test_the_collectives_of_python_and_of_ddp_are_all_seen(two_places: Job) -> None:
    assert "not seen" not in late_rank_jobs.page(two_places.folder)


def test_two_of_four_ranks_are_named_and_mending_one_of_them_is_not_said_to_help(two_of_four: Job) -> None:
    assert {rank: event["rl.straggler.beside"] for rank, event in two_of_four.first.items()} == {2: [3], 3: [2]}
    for event in two_of_four.first.values():
        assert event["rl.straggler.lost_time"] > LEAST
        assert event["rl.straggler.alone_lost_time"] < event["rl.straggler.lost_time"] / 2
    assert two_of_four.findings.keys() == {2, 3}
    for rank, finding in two_of_four.findings.items():
        assert f"Mending rank {rank} alone gives back " in finding["text"]
        assert f"; with rank {5 - rank} mended too, " in finding["text"]
        assert LEAST_SHARE < finding["cost"] < 1
