"""One step of all ranks: the rank that makes the others wait, and what the step would have been without it."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_ranks import GROUP, MS, Program, run

from otel_rl.ranks.model.collectives import Collective, Wait
from otel_rl.ranks.stragglers.comparison import StepComparison, Straggler, compare
from otel_rl.ranks.stragglers.replay import BLOCKED_NS, Replay
from otel_rl.ranks.stragglers.timeline import RankStep, StepKey, TimeSpan

KEY = StepKey("", 7)
GROUP_COLLECTIVE = Collective(GROUP, 1)


def stragglers(found: StepComparison) -> dict[int, Straggler]:
    """Each rank that was late, with all that were late at its place."""
    return {rank: late.straggler(rank) for late in found.late for rank in late.ranks}


def layers(delay: float = 0.0, at: int | None = None, phase: str = "train", *, seed: int = 0) -> Program:
    """Eight layers whose gradients are reduced while the next is computed, as DDP does; waited for at the end."""
    program = Program().work(20 + _noise(seed), "sample")
    for number in range(1, 9):
        if at == number:
            program.work(delay, phase)
        program.work(5 + 0.3 * _noise(seed, number)).launch(number)
    for number in range(1, 9):
        program.wait(number)
    return program.work(3).all_reduce(9)


def _noise(rank: int, number: int = 0) -> float:
    """From 0 to 1, different for each rank and layer."""
    return (rank * 37 + number * 61) % 100 / 100


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("delay", [20, 60, 200])
@pytest.mark.parametrize("at", [1, 5, 8])
def test_the_late_rank_is_found_and_its_cost_is_what_the_step_is_shorter_without_the_delay(ranks, delay, at):
    programs = {rank: layers(seed=rank) for rank in range(ranks)}
    healthy = run(programs)
    late = run({**programs, 1: layers(delay, at, "reward", seed=1)})

    found = compare(KEY, late)

    saved = fmean(step.length for step in late.values()) - fmean(step.length for step in healthy.values())
    assert found.straggler is not None
    assert found.straggler.rank == 1
    assert found.straggler.phase == "reward"
    assert found.straggler.operation == "all_reduce"
    assert found.straggler.lost == pytest.approx(saved / 1e9, abs=0.05 * found.length)
    assert found.lost_share == pytest.approx(saved / 1e9 / found.length, abs=0.05)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_rank_that_leaves_each_collective_late_and_works_no_longer_is_not_blamed(ranks):
    program = Program().work(20)
    for number in range(1, 41):
        program.work(0.05).all_reduce(number)
    steps = run(dict.fromkeys(range(ranks), program), 0.3, leaves_later_ms={1: 0.3})

    assert compare(KEY, steps).straggler is None

    longer = Program([("work", 26, "train"), *program.parts[1:]])
    late = compare(KEY, run({**dict.fromkeys(range(ranks), program), 0: longer}, 0.3, leaves_later_ms={1: 0.3}))
    assert late.straggler is not None
    assert (late.straggler.rank, late.straggler.phase) == (0, "train")
    assert late.straggler.lost == pytest.approx(0.006, abs=0.0001)


@pytest.mark.parametrize("second", ["reward", "sample"])
def test_two_ranks_that_are_late_in_turn_cost_what_each_works_longer_there(second):
    def program(sample: float, reward: float) -> Program:
        return Program().work(sample, "sample").all_reduce(1).work(reward, second).all_reduce(2)

    found = stragglers(compare(KEY, run({0: program(50, 110), 1: program(112, 50)})))

    assert {rank: (late.phase, late.beside) for rank, late in found.items()} == {1: ("sample", ()), 0: (second, ())}
    assert {rank: late.lost for rank, late in found.items()} == pytest.approx({1: 0.062, 0: 0.060}, abs=0.001)
    assert {rank: late.alone for rank, late in found.items()} == pytest.approx({1: 0.062, 0: 0.060}, abs=0.001)


@pytest.mark.parametrize(
    ("more", "lost", "alone"),
    [
        ((0, 0, 60, 58), {2: 0.060, 3: 0.058}, {2: 0.002, 3: 0.0}),
        ((0, 0, 60, 30), {2: 0.060, 3: 0.030}, {2: 0.030, 3: 0.0}),
        ((0, 60, 58, 56), {1: 0.060, 2: 0.058, 3: 0.056}, {1: 0.002, 2: 0.0, 3: 0.0}),
        ((60, 0, 0, 0), {0: 0.060}, {0: 0.060}),
    ],
)
def test_each_of_several_late_ranks_has_its_own_cost_and_what_mending_it_alone_gives(more, lost, alone):
    found = stragglers(compare(KEY, run({rank: Program().work(50 + ms).all_reduce(1) for rank, ms in enumerate(more)})))

    assert {rank: late.lost for rank, late in found.items()} == pytest.approx(lost, abs=0.001)
    assert {rank: late.alone for rank, late in found.items()} == pytest.approx(alone, abs=0.001)
    assert all(set(late.beside) == lost.keys() - {rank} for rank, late in found.items())


def test_ranks_that_are_late_for_one_collective_in_different_phases_have_each_its_own():
    mores = ((0, 0), (60, 0), (0, 60), (0, 0))
    programs = {
        rank: Program().work(50 + sample, "sample").work(50 + reward, "reward").all_reduce(1)
        for rank, (sample, reward) in enumerate(mores)
    }

    found = stragglers(compare(KEY, run(programs)))

    assert {rank: late.phase for rank, late in found.items()} == {1: "sample", 2: "reward"}
    assert {rank: late.alone for rank, late in found.items()} == {1: 0.0, 2: 0.0}


def test_work_behind_the_last_collective_of_a_step_makes_the_others_wait_in_the_next():
    def step(rank: int, waited: int, began: int, work: int, met: int) -> RankStep:
        collective = GROUP_COLLECTIVE
        launched = began + work * MS
        return RankStep(
            rank, began, met * MS, {collective: launched}, [Wait(collective, launched, met * MS)],
            {collective: "all_reduce"}, [TimeSpan("evaluate", waited, began)], waited,
        )  # fmt: skip

    # Both were let go at 100 ms. Rank 0 evaluates for 300 ms, then its step ends; that of rank 1 has ended at once.
    found = compare(KEY, {0: step(0, 100 * MS, 400 * MS, 50, 451), 1: step(1, 100 * MS, 100 * MS, 50, 451)})

    [late] = stragglers(found).values()
    assert (late.rank, late.phase) == (0, "evaluate")
    assert late.lost == pytest.approx(0.3, abs=0.001)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_that_work_alike_lose_little(ranks):
    found = compare(KEY, run({rank: layers(seed=rank) for rank in range(ranks)}))

    assert found.lost_share < 0.02
    assert found.waited < 0.02 * found.length


def test_work_behind_the_launch_does_not_make_the_others_wait():
    # Rank 0 does long work between launch and wait: the others have their result and are gone.
    steps = run({0: Program().launch(1).work(100).wait(1), 1: Program().launch(1).wait(1).work(100)})

    found = compare(KEY, steps)

    assert found.lost_share < 0.01


def test_the_root_of_a_broadcast_waits_for_nobody():
    collective = Collective(GROUP, 1)
    root = RankStep(0, 0, 20 * MS, {collective: 0}, [Wait(collective, 0, MS)], {collective: "broadcast"})
    late = RankStep(
        1, 0, 20 * MS, {collective: 10 * MS}, [Wait(collective, 10 * MS, 11 * MS)], {collective: "broadcast"}
    )

    found = compare(KEY, {0: root, 1: late})

    assert found.waited < 0.002
    assert found.straggler is None or found.straggler.rank != 1 or found.straggler.lost == pytest.approx(0, abs=1e-3)


def test_a_rank_is_not_blamed_for_waiting_in_another_group():
    # Rank 3 is late in its pair; so rank 2 comes late to the group of all. The cause is rank 3.
    pair = "1\tpair\t2-3"
    steps = run(
        {
            0: Program().work(10).all_reduce(1),
            1: Program().work(10).all_reduce(1),
            2: Program().work(10).all_reduce(1, pair).work(1).all_reduce(1),
            3: Program().work(60).all_reduce(1, pair).all_reduce(1),
        }
    )

    found = compare(KEY, steps)

    assert found.straggler is not None
    assert found.straggler.rank == 3
    assert found.spreads == {GROUP: pytest.approx(0.052), pair: pytest.approx(0.05)}


def test_where_waits_do_not_block_nobody_is_blamed():
    # As under NCCL: launch and wait return at once, and the ranks are apart.
    numbers = [Collective(GROUP, number) for number in range(1, 9)]

    def rank(number: int, late: int) -> RankStep:
        launches = {one: place * 5 * MS + late for place, one in enumerate(numbers)}
        waits = [Wait(one, moment, moment + 5_000) for one, moment in launches.items()]
        return RankStep(number, 0, 60 * MS, launches, waits, dict.fromkeys(numbers, "all_reduce"))

    found = compare(KEY, {0: rank(0, 0), 1: rank(1, 4 * MS)})

    assert found.spreads[GROUP] == pytest.approx(0.004)
    assert found.lost_share < 0.001


def test_missing_records_name_nobody_rather_than_somebody():
    first, second = Collective(GROUP, 1), Collective(GROUP, 2)
    # Each waits for what the other has launched behind its own wait.
    steps = {
        0: RankStep(0, 0, 9 * MS, {first: 0, second: 8 * MS}, [Wait(first, 0, 8 * MS)]),
        1: RankStep(1, 0, 9 * MS, {second: 0, first: 8 * MS}, [Wait(second, 0, 8 * MS)]),
    }

    assert Replay(steps).ends() is None
    compare(KEY, steps)


PROGRAMS = st.integers(2, 5).flatmap(
    lambda ranks: st.lists(st.lists(st.floats(0, 50), min_size=4, max_size=4), min_size=ranks, max_size=ranks)
)


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, st.booleans())
def test_a_replay_with_all_ranks_is_the_step_itself(works, overlap):
    steps = run({rank: _program(own, overlap=overlap) for rank, own in enumerate(works)})

    ends = Replay(steps).ends()

    assert ends is not None
    for rank, step in steps.items():
        assert ends[rank] == pytest.approx(step.ended, abs=BLOCKED_NS * len(step.waits))


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, st.booleans())
def test_a_replay_with_a_mended_rank_is_the_step_in_which_it_did_less(works, overlap):
    programs = {rank: _program(own, overlap=overlap) for rank, own in enumerate(works)}
    steps = run(programs)
    left = {wait.collective: 0.5 for wait in steps[0].waits}

    ends = Replay(steps).ends({0: left})

    mended = run({**programs, 0: _program([work / 2 for work in works[0]], overlap=overlap)})
    assert ends is not None
    for rank, step in mended.items():
        assert ends[rank] == pytest.approx(step.ended, abs=BLOCKED_NS * len(step.waits) + 1.1 * MS)


def _program(own: list[float], *, overlap: bool) -> Program:
    program = Program()
    for number, work in enumerate(own, 1):
        program.work(work).launch(number)
        if not overlap:
            program.wait(number)
    for number in range(1, len(own) + 1) if overlap else ():
        program.wait(number)
    return program
