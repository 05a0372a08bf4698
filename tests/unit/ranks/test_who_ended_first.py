"""Whether the rank that others waited for ended before them: said only where heartbeats, records or exits show it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from written_ranks import ALL, Ranks

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import read
from otel_rl.process import exit_records, lifetime
from otel_rl.ranks.postmortem import Postmortem, order
from otel_rl.ranks.postmortem.ranks import RankState, state_of
from otel_rl.ranks.postmortem.text import verdict
from otel_rl.ranks.postmortem.waits import find_waits

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime

SECOND = 1_000_000_000


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    """Ranks 0 and 2 wait for rank 1 in all_reduce number 2."""
    found = Ranks(tmp_path)
    for rank in range(3):
        found.passed(rank, 1)
    for rank in (0, 2):
        found.waits(rank, 2)
    return found


def _gone(rank: int) -> Lifetime:
    """A process that is there no more."""
    return lifetime.own()._replace(pid=2**22 + 1 + rank)


def _states(ranks: Ranks, seconds: tuple[float, float, float], *exits: Exit) -> list[RankState]:
    """All three are gone; their last heartbeats come so many seconds after the begin of the waits."""
    states = []
    for number, after in enumerate(seconds):
        ring = read(ranks.rings[number].path)
        beat = ring.clocks[0] + round(after * SECOND)
        changed = replace(ring, heartbeat=beat, lifetime=_gone(number))
        states.append(state_of(changed, {end.lifetime: end for end in exits}))
    return states


def _exit(rank: int, status: int, at: int | None = None) -> Exit:
    seen = exit_records.make(_gone(rank), status, rank, "torchrun", None)
    return seen if at is None else replace(seen, at_unix_nano=at)


def _fail(ranks: Ranks, number: int) -> None:
    for rank in (0, 2):
        ring = ranks.rings[rank]
        ring.end(ring.begin(layout.WAIT, "all_reduce", 0, ALL, number), True)


def _killed_at_last(ranks: Ranks, others: int, moments: tuple[float, float]) -> list[Exit]:
    """Ranks 0 and 2 end with the status ``others`` at the first of these seconds, rank 1 by SIGKILL at the second."""
    began = read(ranks.rings[0].path)
    first, last = (began.clocks[1] + round(moment * SECOND) for moment in moments)
    return [_exit(0, others, first), _exit(2, others, first), _exit(1, -9, last)]


def _said(states: list[RankState]) -> str:
    (sentence,) = verdict(Postmortem("run", 0, False, states, find_waits(states), {}, []))
    return sentence


def test_a_rank_without_heartbeats_while_all_that_wait_for_it_gave_some_stopped_first(ranks: Ranks) -> None:
    assert _said(_states(ranks, (9.0, 1.0, 8.0))).startswith("rank 1 stopped first and did not enter all_reduce")


@pytest.mark.parametrize("seconds", [(1.0, 0.4, 1.2), (9.0, 1.0, 2.0)], ids=["all at once", "one of two"])
def test_of_ranks_that_ended_within_a_few_heartbeats_the_order_is_not_known(
    ranks: Ranks, seconds: tuple[float, float, float]
) -> None:
    sentence = _said(_states(ranks, seconds))
    assert sentence.startswith("rank 1 stopped and did not enter all_reduce number 2")
    assert sentence.endswith("; whether it ended before rank 0, rank 2 is not known")


def test_a_rank_that_lived_while_others_waited_was_stuck_and_who_ended_first_is_not_known(ranks: Ranks) -> None:
    sentence = _said(_states(ranks, (30.0, 30.6, 30.2)))
    assert sentence.startswith("rank 1 was stuck and did not enter all_reduce number 2")
    assert sentence.endswith("; whether it ended before rank 0, rank 2 is not known")


@pytest.mark.parametrize(("last", "stood"), [(29.0, "was late"), (10.0, "was stuck")], ids=["all along", "at first"])
def test_a_rank_that_worked_while_others_waited_was_late_unless_it_was_silent_for_longer(
    ranks: Ranks, last: float, stood: str
) -> None:
    states = _states(ranks, (30.0, 30.6, 30.2))
    ring = states[1].ring
    worked = ring.records[-1]._replace(kind=layout.PHASE, name="generate", moment=ring.clocks[0] + round(last * SECOND))
    states[1] = state_of(replace(ring, records=[*ring.records, worked]))
    assert _said(states).startswith(f"rank 1 {stood} and did not enter all_reduce number 2")


def test_what_an_exception_closes_at_the_end_of_a_rank_that_was_stuck_is_no_work(ranks: Ranks) -> None:
    states = _states(ranks, (30.0, 29.0, 30.2))
    ring = states[1].ring
    ended = ring.clocks[0] + 60 * SECOND
    closed = ring.records[-1]._replace(kind=layout.PHASE, name="generate", moment=ended - SECOND // 100)
    states[1] = state_of(replace(ring, records=[*ring.records, closed], ended=ended, end_reason="RuntimeError"))
    assert _said(states).startswith("rank 1 was stuck and did not enter all_reduce number 2")


def test_a_rank_that_outlived_those_that_waited_for_it_did_not_stop_first(ranks: Ranks) -> None:
    sentence = _said(_states(ranks, (1.0, 30.0, 1.0)))
    assert sentence.startswith("rank 1 was stuck and did not enter all_reduce number 2")
    assert "not known" not in sentence


def test_a_rank_stopped_first_whose_launcher_then_ended_the_others(ranks: Ranks) -> None:
    exits = [_exit(0, -15), _exit(1, -9), _exit(2, -15)]
    assert _said(_states(ranks, (1.0, 0.9, 1.0), *exits)).startswith("rank 1 stopped first")
    all_at_once = [_exit(rank, -15) for rank in range(3)]
    assert _said(_states(ranks, (1.0, 0.9, 1.0), *all_at_once)).startswith("rank 1 stopped and")


def test_a_rank_stopped_first_where_the_collective_of_the_others_failed_after_its_last_sign(ranks: Ranks) -> None:
    ranks.passed(1, 2)
    _fail(ranks, 3)
    states = _states(ranks, (0.0, 0.0, 0.0))
    assert order.stopped_first(states[1], find_waits(states).on(states[1])) is True


@pytest.mark.parametrize("last_beat", [58.0, 5.0], ids=["with heartbeats", "without"])
def test_a_rank_that_the_launcher_killed_after_its_sigterm_did_not_stop_first(ranks: Ranks, last_beat: float) -> None:
    exits = _killed_at_last(ranks, -15, (60.0, 90.0))
    sentence = _said(_states(ranks, (60.0, last_beat, 60.0), *exits))
    assert "stopped first" not in sentence
    assert sentence.endswith("; whether it ended before rank 0, rank 2 is not known")


def test_a_rank_that_gave_heartbeats_after_the_sigterm_of_the_others_outlived_them(ranks: Ranks) -> None:
    sentence = _said(_states(ranks, (60.0, 90.0, 60.0), *_killed_at_last(ranks, -15, (60.0, 90.0))))
    assert sentence.startswith("rank 1 was stuck and")
    assert "not known" not in sentence


def test_a_rank_that_was_killed_long_after_the_collective_of_the_others_failed_did_not_stop_first(
    ranks: Ranks,
) -> None:
    ranks.passed(1, 2)
    _fail(ranks, 3)
    states = _states(ranks, (40.0, -1.0, 40.0), *_killed_at_last(ranks, 1, (40.0, 71.0)))
    assert order.stopped_first(states[1], find_waits(states).on(states[1])) is None
