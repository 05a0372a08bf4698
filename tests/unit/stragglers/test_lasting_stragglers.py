"""An event for a straggler that lasts, one for its end, and none for a single late step."""

from __future__ import annotations

from otel_rl.stragglers.comparison import Comparison, Straggler
from otel_rl.stragglers.persistence import Persistence
from otel_rl.stragglers.timeline import StepKey


def step(iteration: int, rank: int | None, share: float, length: float = 0.5) -> Comparison:
    straggler = None if rank is None else Straggler(rank, share * length, "all_reduce", "g", "reward")
    return Comparison(StepKey("", iteration), length, 0.0, {}, straggler)


def events(*steps: Comparison):
    persistence = Persistence()
    changes = [persistence.add(one) for one in steps]
    return [("end" if one.is_over else "begin", one.straggler.rank, one.since, one.iteration) for one in changes if one]


def test_a_rank_that_is_late_in_three_steps_is_named_once():
    assert events(*(step(number, 1, 0.2) for number in range(1, 9))) == [("begin", 1, 1, 3)]


def test_a_single_late_step_is_not_reported():
    assert not events(step(1, 1, 0.02), step(2, 1, 0.9), step(3, 1, 0.02), step(4, 0, 0.03))


def test_ranks_that_take_turns_are_not_reported():
    assert not events(*(step(number, number % 3, 0.3) for number in range(12)))


def test_one_long_step_is_enough():
    assert events(step(7, 2, 0.25, length=60.0)) == [("begin", 2, 7, 7)]


def test_milliseconds_are_noise_however_short_the_steps():
    assert not events(*(step(number, 1, 0.3, length=0.01) for number in range(9)))


def test_its_end_is_reported_and_another_rank_may_follow():
    late = [step(number, 1, 0.2) for number in range(1, 4)]
    after = [step(number, 3, 0.4) for number in range(4, 8)]

    assert events(*late, *after) == [("begin", 1, 1, 3), ("end", 1, 1, 5), ("begin", 3, 4, 6)]


def test_a_straggler_that_varies_around_the_limit_is_one_event():
    shares = (0.2, 0.2, 0.2, 0.08, 0.12, 0.07, 0.11, 0.09)

    assert events(*(step(number, 1, share) for number, share in enumerate(shares))) == [("begin", 1, 0, 2)]
