"""An event for a straggler that lasts, one for its end, and none for a single late step."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from otel_rl.ranks.stragglers.comparison import LateTogether, StepComparison
from otel_rl.ranks.stragglers.meetings import Place
from otel_rl.ranks.stragglers.persistence import Persistence
from otel_rl.ranks.stragglers.timeline import StepKey


def step(iteration: int, rank: int | None, share: float, length: float = 0.5, ranks: int = 2) -> StepComparison:
    lost = share * length
    late = LateTogether(Place("g", "reward"), "all_reduce", (rank,), ranks, lost, lost, (lost,), ("reward",))
    return StepComparison(StepKey("", iteration), length, 0.0, {}, () if rank is None else (late,))


def events(*steps: StepComparison):
    persistence = Persistence()
    changes = [change for one in steps for change in persistence.add(one)]
    return [("end" if one.is_over else "begin", one.straggler.rank, one.since, one.iteration) for one in changes]


@pytest.mark.parametrize(("ranks", "steps"), [(2, 11), (4, 8), (8, 8)])
def test_a_rank_that_is_late_in_steps_in_a_row_is_named_once(ranks, steps):
    late = [step(number, 1, 0.2, ranks=ranks) for number in range(1, 20)]
    assert events(*late) == [("begin", 1, 1, steps)]


def test_a_single_late_step_is_not_reported_however_long():
    assert not events(step(1, 1, 0.02), step(2, 1, 0.9, length=60.0), *(step(number, 0, 0.02) for number in range(9)))


def test_ranks_that_take_turns_are_not_reported():
    assert not events(*(step(number, number % 3, 0.3) for number in range(40)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_of_thirty_jobs_with_batches_of_uneven_length_at_most_three_have_a_straggler(ranks):
    # Every rank has lognormal work; none is slow. The share is what the last one costs the others.
    chance = random.Random(1)  # noqa: S311 - no secret
    reported = 0
    for _ in range(30):
        steps = []
        for number in range(150):
            works = sorted((chance.lognormvariate(0, 0.4), rank) for rank in range(ranks))
            (last, rank), second = works[-1], works[-2][0]
            steps.append(step(number, rank, 1 - second / last, 0.5, ranks))
        reported += bool(events(*steps))
    assert reported <= 3


def test_milliseconds_are_noise_however_short_the_steps():
    assert not events(*(step(number, 1, 0.3, length=0.01) for number in range(20)))


def test_its_end_is_reported_and_another_rank_may_follow():
    late = [step(number, 1, 0.2) for number in range(1, 12)]
    after = [step(number, 3, 0.4) for number in range(12, 23)]

    assert events(*late, *after) == [("begin", 1, 1, 11), ("end", 1, 1, 11), ("begin", 3, 12, 22)]


def test_a_straggler_that_varies_around_the_limit_is_one_event():
    shares = [0.2] * 11 + [0.08, 0.12, 0.07, 0.11, 0.09]

    assert events(*(step(number, 1, share) for number, share in enumerate(shares))) == [("begin", 1, 0, 10)]


def test_a_rank_that_evaluates_in_every_second_step_is_named_with_its_share_of_all_steps():
    """In the other steps nobody is late: of two steps together, of 0.4 s, the others wait for 0.3 s."""
    persistence = Persistence()
    steps = [step(number, 0, 0.3 / 0.35, 0.35) if number % 2 else step(number, None, 0.0, 0.05) for number in range(40)]
    [begin] = [change for one in steps for change in persistence.add(one)]
    assert (begin.straggler.rank, begin.is_over, begin.share) == (0, False, pytest.approx(0.75, abs=0.05))
    assert persistence.costs() == {0: pytest.approx((0.15, 0.75))}


def test_where_loops_take_turns_the_steps_that_are_named_are_of_one_of_them():
    persistence = Persistence()
    steps = []
    for number in range(10, 14):
        late = step(number, 1, 0.2, ranks=4)
        steps += [replace(late, key=StepKey("", number + 90)), replace(late, key=StepKey("teacher", number))]
    [change] = [found for one in steps for found in persistence.add(one)]
    assert (change.key.loop, change.since, change.iteration) == ("teacher", 10, 13)

    [end] = [found for number in range(104, 112) for found in persistence.add(step(number, None, 0.0))]
    assert (end.key.loop, end.since, end.is_over) == ("teacher", 10, True)
    assert end.iteration <= 13


def test_loops_without_a_name_are_told_apart_by_their_number():
    persistence = Persistence()
    first = [replace(step(number, 1, 0.3, ranks=4), key=StepKey("", number, 1)) for number in range(93, 101)]
    second = [replace(step(number, None, 0.0), key=StepKey("", number, 2)) for number in range(1, 9)]
    begin, end = [found for one in (*first, *second) for found in persistence.add(one)]
    assert (begin.since, begin.iteration) == (93, 100)
    assert (end.since, end.iteration, end.is_over) == (93, 100, True)


def test_a_rank_that_is_late_in_one_loop_and_goes_on_in_the_next_is_late_since_a_step_of_the_latter():
    persistence = Persistence()
    first = [replace(step(number, 1, 0.3, ranks=4), key=StepKey("", number, 1)) for number in range(96, 101)]
    second = [replace(step(number, 1, 0.3, ranks=4), key=StepKey("", number, 2)) for number in range(1, 4)]
    [begin] = [found for one in (*first, *second) for found in persistence.add(one)]
    assert (begin.key, begin.since) == (StepKey("", 3, 2), 1)
