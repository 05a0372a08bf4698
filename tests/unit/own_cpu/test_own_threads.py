"""CPU time of our own threads: those whose names say so, by the clock of each."""

from __future__ import annotations

import threading

import pytest

from otel_rl import own_cpu


@pytest.fixture(autouse=True)
def none_found(monkeypatch):
    monkeypatch.setattr(own_cpu, "_threads", {})


class Busy:
    """A thread that computes, then waits until it may end."""

    def __init__(self, name):
        self.worked, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def _run(self):
        sum(range(300_000))
        self.worked.set()
        self._end.wait(10)

    def __enter__(self):
        self._thread.start()
        self.worked.wait(10)
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def test_a_thread_of_ours_counts_from_its_beginning_on():
    with Busy("otel-rl-test"):
        own_cpu.find_threads()
        assert own_cpu.threads_nanoseconds() > 0


def test_a_thread_of_the_program_does_not_count():
    own_cpu.find_threads()
    # Other tests may have left threads of ours.
    ours = dict(own_cpu._threads)
    with Busy("otel"), Busy("Thread-7"):
        own_cpu.find_threads()
        assert own_cpu._threads.keys() == ours.keys()


def test_a_thread_that_has_ended_keeps_what_was_seen_of_it():
    with Busy("otel-rl-test"):
        own_cpu.find_threads()
        seen = own_cpu.threads_nanoseconds()

    assert own_cpu.threads_nanoseconds() >= seen > 0


def test_a_clock_that_fails_or_goes_back_takes_nothing_away(monkeypatch):
    readings = iter([5_000, OSError(), 3_000, 8_000])

    def clock(_):
        reading = next(readings)
        if isinstance(reading, OSError):
            raise reading
        return reading

    own_cpu._threads[12345] = 0
    monkeypatch.setattr(own_cpu, "thread_clock", clock)

    assert [own_cpu.threads_nanoseconds() for _ in range(4)] == [5_000, 5_000, 5_000, 8_000]


def test_a_forked_child_has_none_of_them():
    with Busy("otel-rl-test"):
        own_cpu.find_threads()
        own_cpu.reset()
        assert own_cpu.threads_nanoseconds() == 0
