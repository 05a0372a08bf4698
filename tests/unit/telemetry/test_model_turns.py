"""Each call of a trajectory counts once and has one number, whichever threads end it or ask for the last turn."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from otel_rl.telemetry.open_trajectory import OpenTrajectory

THREADS, CALLS = 8, 300


class Call:
    """A model call that nobody has dropped."""

    answer_began: float | None = None
    turn: int | None = None

    def __init__(self, trajectory: OpenTrajectory) -> None:
        self._trajectory = trajectory
        self.started = time.perf_counter()

    def end_if_dropped(self) -> None:
        """Nobody has."""

    def goes_on(self) -> None:
        """Asks for no tools."""

    def count_so_far(self) -> None:
        self._trajectory.model_call_ended((1, 1), None, failed=False, turn=self.turn)


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def begin(trajectory):
    call = Call(trajectory)
    trajectory.model_call_began(call)
    call.answer_began = time.perf_counter()
    trajectory.turns.answer_began(call)
    return call


def end(trajectory, call):
    if trajectory.turns.take(call):
        trajectory.turns.give(call)
        trajectory.model_call_ended((1, 1), None, failed=False, turn=call.turn)


def test_threads_that_end_calls_and_ask_for_turns_count_and_number_each_once(many_switches):
    trajectory, calls = OpenTrajectory(), []
    start = threading.Barrier(THREADS)

    def work():
        start.wait()
        for number in range(CALLS):
            call = begin(trajectory)
            calls.append(call)
            if number % 3 == 0:
                assert trajectory.turn
            if number % 2 == 0:
                end(trajectory, call)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trajectory.count_open_calls()
    assert trajectory.model_calls == trajectory.turns.number == THREADS * CALLS
    assert sorted(call.turn for call in calls) == list(range(1, THREADS * CALLS + 1))


def test_calls_that_end_while_their_trajectory_ends_count_once(many_switches):
    for _ in range(50):
        trajectory = OpenTrajectory()
        calls = [begin(trajectory) for _ in range(20)]
        ending = threading.Thread(target=lambda: [end(trajectory, call) for call in calls])  # noqa: B023 - joined below
        ending.start()
        trajectory.count_open_calls()
        ending.join()
        assert (trajectory.model_calls, trajectory.turns.number) == (20, 20)


def test_a_stop_reason_is_that_of_the_last_turn_whichever_ends_last():
    trajectory = OpenTrajectory()
    first, second = begin(trajectory), begin(trajectory)
    assert trajectory.turn == 2
    trajectory.model_call_ended((None, None), ["length"], failed=False, turn=second.turn)
    trajectory.model_call_ended((None, None), ["stop"], failed=False, turn=first.turn)
    assert trajectory.stop_reason == "length"


def test_a_last_answer_that_was_left_before_its_reason_has_no_stop_reason():
    trajectory = OpenTrajectory()
    first, second = begin(trajectory), begin(trajectory)
    assert trajectory.turn == 2
    trajectory.model_call_ended((None, None), ["tool_calls"], failed=False, turn=first.turn)
    trajectory.model_call_ended((None, None), None, failed=False, turn=second.turn)
    assert trajectory.stop_reason is None
