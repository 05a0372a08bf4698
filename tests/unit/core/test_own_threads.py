"""Our own threads: their signals, and their CPU time, by the clock of each one whose name says that it is ours."""

from __future__ import annotations

import gc
import queue
import signal
import threading

import pytest

from otel_rl.core import own_cpu, threads


@pytest.fixture(autouse=True)
def none_found(monkeypatch):
    monkeypatch.setattr(own_cpu, "_threads", {})
    monkeypatch.setattr(own_cpu, "_collections_ns", 0)
    monkeypatch.setattr(own_cpu, "_reported_ns", 0)


class Busy:
    """A thread that computes, then waits until it may end."""

    def __init__(self, name):
        self.worked, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def _run(self):
        sum(range(300_000))
        self.worked.set()
        self._end.wait(60)

    def __enter__(self):
        self._thread.start()
        self.worked.wait(60)
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


class Clock:
    """The CPU clock of a thread; only work moves it."""

    def __init__(self, monkeypatch):
        self.now = 0
        monkeypatch.setattr(own_cpu, "clock", lambda: self.now)
        monkeypatch.setattr(own_cpu, "thread_clock", lambda _: self.now)

    def stretch(self, stretch, nanoseconds, *, collects=False):
        stretch.begin()
        self.now += nanoseconds
        if collects:
            gc.collect()
        return stretch.end()


def test_a_stretch_with_a_full_garbage_collection_counts_as_one_without(monkeypatch):
    clock, stretch = Clock(monkeypatch), own_cpu.CpuStretch()
    assert clock.stretch(stretch, 4_000_000) == 4_000_000
    assert clock.stretch(stretch, 150_000_000, collects=True) == own_cpu.MAXIMUM_MULTIPLE_OF_MEAN * 4_000_000
    assert clock.stretch(stretch, 3_000_000, collects=True) == 3_000_000, "it was short all the same"


def test_a_long_stretch_without_a_collection_counts_whole(monkeypatch):
    clock, stretch = Clock(monkeypatch), own_cpu.CpuStretch()
    assert [clock.stretch(stretch, ns) for ns in (1_000_000, 150_000_000)] == [1_000_000, 150_000_000]


def test_the_first_stretch_counts_little_where_a_collection_falls_into_it(monkeypatch):
    clock, stretch = Clock(monkeypatch), own_cpu.CpuStretch()
    assert clock.stretch(stretch, 150_000_000, collects=True) == own_cpu.MAXIMUM_FIRST_SAMPLE_NS


def test_collections_in_our_threads_are_no_cpu_time_of_ours_and_the_sum_never_falls(monkeypatch):
    clock, turns = Clock(monkeypatch), own_cpu.Turns()
    own_cpu._threads[12345] = 0
    with turns:
        clock.now += 1_000_000
    assert own_cpu.threads_nanoseconds() == 1_000_000
    with turns:
        clock.now += 150_000_000
        gc.collect()
        # A reader in another thread sees the turn before it is over.
        assert own_cpu.threads_nanoseconds() == 151_000_000
    assert own_cpu.threads_nanoseconds() == 151_000_000
    clock.now += 200_000_000
    assert own_cpu.threads_nanoseconds() == 351_000_000 - 150_000_000 + own_cpu.MAXIMUM_MULTIPLE_OF_MEAN * 1_000_000


def _blocked():
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_thread_of_ours_begins_with_signals_blocked_as_the_kernel_may_give_it_one_before_python_knows_it():
    before, masks = _blocked(), queue.Queue()
    threads.start_new_thread(lambda: masks.put(_blocked()), ())
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1} <= masks.get(timeout=60)
    assert _blocked() == before


def test_code_of_the_program_in_a_thread_of_ours_has_the_signals_of_the_main_thread():
    masks = queue.Queue()

    def run():
        with threads.signals_of_main_thread():
            masks.put(_blocked())
        masks.put(_blocked())

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        threads.start_new_thread(run, ())
        assert masks.get(timeout=60) == _blocked() | {signal.SIGPIPE, signal.SIGXFSZ}
        assert {signal.SIGTERM, signal.SIGINT} <= masks.get(timeout=60)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_handler_of_the_program_that_raises_while_a_thread_of_ours_starts_leaves_no_signal_blocked(monkeypatch):
    class ExpectedError(Exception):
        pass

    def handle(*_):
        raise ExpectedError

    def starts(*_):
        signal.raise_signal(signal.SIGUSR1)

    before, handler = _blocked(), signal.signal(signal.SIGUSR1, handle)
    monkeypatch.setattr(threads, "_start", starts)
    try:
        with pytest.raises(ExpectedError):
            threads.start_new_thread(print, ())
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert _blocked() == before
