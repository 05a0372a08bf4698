"""How much of the time between two looks counts: a call that holds the GIL does, a stop and a lack of CPUs do not."""

from __future__ import annotations

import sys

import pytest

from otel_rl.event_loops import thread_time
from otel_rl.event_loops.thread_time import ThreadInterval, ThreadTime

INTERVAL = 0.025
#: The kernel writes the nanoseconds that a thread has computed and waited, and how often it had a turn.
SCHEDULE = "{computed} {waited} {turns}\n"


class Thread:
    """What the system says of a thread."""

    def __init__(self, monkeypatch, *, has_schedule=True):
        self.computed = self.waited = 0.0
        self.voluntary = self.others = 0
        self.is_ready = False
        monkeypatch.setattr(ThreadTime, "read_clock", lambda _: self.computed)
        monkeypatch.setattr(thread_time.proc_files, "read", self._read)
        monkeypatch.setattr(thread_time.os.path, "exists", lambda _: has_schedule)
        monkeypatch.setattr(sys, "getswitchinterval", lambda: 0.005)

    def _read(self, path):
        if path.endswith("schedstat"):
            return SCHEDULE.format(computed=1, waited=round(self.waited * 1e9), turns=1).encode()
        lines = [
            f"State:\t{'R (running)' if self.is_ready else 'S (sleeping)'}",
            f"voluntary_ctxt_switches:\t{self.voluntary}",
            f"nonvoluntary_ctxt_switches:\t{self.others}",
        ]
        return "\n".join(["Name:\tpython", *lines, ""]).encode()


@pytest.fixture
def thread(monkeypatch):
    return Thread(monkeypatch)


def test_between_two_looks_in_time_all_counts(thread):
    time = ThreadTime()
    thread.computed = 0.02
    assert time.stretch(0.1, INTERVAL, 0) == ThreadInterval(0.1, 0.02, held_gil=False)


def test_of_a_process_that_was_stopped_half_a_block_counts(thread):
    time = ThreadTime()
    assert time.stretch(3600, INTERVAL, 1) == ThreadInterval(0.1, 0.0, held_gil=False)


@pytest.mark.parametrize(
    ("passed", "computed", "asked", "held"),
    [
        (10.0, 9.0, 2000, True),
        # Of 2000 times at which our thread may have asked.
        (10.0, 1.0, 40, True),
        (10.0, 0.9, 2000, False),
        (10.0, 9.0, 39, False),
        (0.2, 0.1, 4, True),
        (0.2, 0.1, 3, False),
    ],
)
def test_a_call_that_computes_while_our_thread_asks_for_the_gil_holds_it(thread, passed, computed, asked, held):
    time = ThreadTime()
    thread.computed = computed
    found = time.stretch(passed, INTERVAL, asked)
    assert found == ThreadInterval(*((computed, computed) if held else (0.1, 0.1)), held_gil=held)


def test_a_clock_of_a_thread_that_has_ended_or_goes_back_counts_nothing(thread):
    time = ThreadTime()
    thread.computed = 5.0
    time.stretch(0.05, INTERVAL, 0)
    thread.computed = 0.0
    assert time.stretch(0.05, INTERVAL, 0).computed == 0.0


@pytest.mark.parametrize(("waited", "expected"), [(0.0, 0.0), (0.03, 0.03), (9.0, 0.06)])
def test_the_time_for_which_the_kernel_says_that_it_waited_for_a_cpu_is_without_one(thread, waited, expected):
    thread.waited = 1.0
    time = ThreadTime()
    time.begin()
    thread.waited += waited
    assert time.without_cpu(ThreadInterval(0.1, 0.04, held_gil=False)) == pytest.approx(expected)
    assert time.without_cpu(ThreadInterval(0.1, 0.04, held_gil=False)) == 0.0


@pytest.mark.parametrize(
    ("voluntary", "others", "computed", "ready", "expected"),
    [
        # It computes, and the CPU was taken from it.
        (0, 1, 0.04, (True, True), 0.06),
        (3, 1, 0.04, (False, False), 0.06),
        # It waits by itself.
        (4, 1, 0.04, (False, False), 0.0),
        (0, 1, 0.009, (False, False), 0.0),
        (1, 0, 0.04, (True, False), 0.0),
        # Nothing was taken, but it is ready: since the last look, or since some time after it.
        (0, 0, 0.04, (True, True), 0.06),
        (0, 0, 0.04, (False, True), 0.03),
    ],
)
def test_without_such_a_kernel_the_switches_stand_in(monkeypatch, voluntary, others, computed, ready, expected):
    thread = Thread(monkeypatch, has_schedule=False)
    time = ThreadTime()
    thread.is_ready = ready[0]
    time.begin()
    thread.voluntary, thread.others, thread.is_ready = voluntary, others, ready[1]
    assert time.without_cpu(ThreadInterval(0.1, computed, held_gil=False)) == pytest.approx(expected)
