"""Of the ranks in one collective the one whose device spent least time in it came last."""

from __future__ import annotations

import pytest

from otel_rl.ranks.model.collectives import Collective
from otel_rl.ranks.model.groups import Group
from otel_rl.ranks.stragglers import last_arrivals
from otel_rl.ranks.stragglers.last_arrivals import LastArrivals

WORLD = Group.of("0", "default_pg", range(3))


def collective(number: int, group: Group = WORLD) -> Collective:
    return Collective(group, number, is_numbered_by_torch=True)


def told(*seconds: float, number: int = 1, operation: str = "all_reduce", group: Group = WORLD) -> LastArrivals:
    arrivals = LastArrivals()
    for rank, time in enumerate(seconds):
        arrivals.add(collective(number, group), operation, rank, time)
    return arrivals


def test_the_rank_that_waited_least_came_last_and_the_others_waited_at_most_the_difference():
    (last,) = told(0.050, 0.010, 0.030).ranks()

    assert (last.rank, last.collectives, last.long) == (1, 1, 1)
    assert last.waited == pytest.approx(0.030)
    assert last.places == {("all_reduce", "default_pg"): pytest.approx(0.030)}


def test_a_wait_of_microseconds_is_no_long_one():
    (last,) = told(0.010, 0.0101, 0.010).ranks()

    assert (last.collectives, last.long, last.waited) == (1, 0, 0.0)


def test_a_collective_of_which_a_rank_is_missing_is_not_compared():
    arrivals = told(0.050, 0.010)

    assert (arrivals.compared, arrivals.incomplete, arrivals.ranks()) == (0, 1, [])


def test_ranks_that_issued_different_operations_under_one_number_are_not_compared():
    arrivals = told(0.050, 0.010)
    arrivals.add(collective(1), "barrier", 2, 0.001)

    assert arrivals.compared == 0


def test_the_same_time_told_twice_counts_once():
    arrivals = told(0.050, 0.010)
    arrivals.add(collective(1), "all_reduce", 1, 0.0)
    arrivals.add(collective(1), "all_reduce", 2, 0.040)

    assert [(last.rank, last.waited) for last in arrivals.ranks()] == [(1, pytest.approx(0.035))]


@pytest.mark.parametrize("group", [Group.of("0", "default_pg"), Group.of("0", "default_pg", [4]), Group("?")])
def test_a_group_of_unknown_size_or_of_one_rank_is_not_compared(group):
    assert told(0.050, 0.010, 0.030, group=group).compared == 0


def test_a_group_that_was_made_again_is_another_one():
    arrivals = told(0.050, 0.010)
    arrivals.add(collective(1, Group.of("0", "default_pg", range(3), 2)), "all_reduce", 2, 0.001)

    assert arrivals.compared == 0


def test_times_come_in_any_order_and_what_is_compared_takes_no_room():
    arrivals = LastArrivals()
    for rank in range(3):
        for number in range(1, 101):
            arrivals.add(collective(number), "all_reduce", rank, 0.010 if rank == 2 else 0.040)

    (last,) = arrivals.ranks()
    assert (last.rank, last.long, arrivals.compared, arrivals.incomplete) == (2, 100, 100, 0)


def test_of_too_many_the_same_part_of_each_rank_is_looked_at(monkeypatch):
    monkeypatch.setattr(last_arrivals, "MOST_WAITING", 100)
    arrivals = LastArrivals()
    for rank in range(3):
        for number in range(1, 1001):
            # The long wait is in the first of the four collectives of a step.
            is_first = number % 4 == 1
            arrivals.add(collective(number), "all_reduce", rank, 0.010 if rank == 2 or not is_first else 0.040)

    (last,) = [last for last in arrivals.ranks() if last.long]
    assert arrivals.incomplete == 0
    assert 30 <= arrivals.compared <= 100
    assert last.long / arrivals.compared == pytest.approx(0.25, abs=0.1)
