"""The estimate of our own CPU time on the program's threads: every call counts, few are timed."""

from __future__ import annotations

import pytest

from otel_rl.core import own_cpu
from otel_rl.core.own_cpu import SAMPLING_PERIOD, WRAPPER_OVERHEAD_NS


class Clock:
    """The CPU clock of a thread; only work moves it."""

    def __init__(self):
        self.now = 0
        self.readings = 0

    def __call__(self):
        self.readings += 1
        return self.now

    def work(self, nanoseconds):
        self.now += nanoseconds


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(own_cpu, "clock", found)
    monkeypatch.setattr(own_cpu, "_clock_reading_ns", 0)
    monkeypatch.setattr(own_cpu, "_places", {})
    monkeypatch.setattr(own_cpu, "_sources", {})
    monkeypatch.setattr(own_cpu, "_settled_ns", 0.0)
    return found


def test_calls_that_all_cost_the_same_are_estimated_exactly(clock):
    hook = own_cpu.timed("hook", clock.work)
    for _ in range(100):
        hook(5_000)

    assert own_cpu.nanoseconds() == 100 * (5_000 + WRAPPER_OVERHEAD_NS)


def test_the_clock_is_read_for_one_call_in_many(clock):
    hook = own_cpu.timed("hook", clock.work)
    for _ in range(10 * SAMPLING_PERIOD):
        hook(1)

    assert clock.readings <= 2 * (10 + 4)


def test_the_first_call_which_imports_and_makes_things_is_not_taken_for_the_others(clock):
    hook = own_cpu.timed("hook", clock.work)
    hook(1_000_000_000)
    for _ in range(9):
        hook(0)

    assert own_cpu.nanoseconds() == 10 * WRAPPER_OVERHEAD_NS


def test_a_place_that_becomes_cheaper_is_followed(clock):
    hook = own_cpu.timed("hook", clock.work)
    for _ in range(20 * SAMPLING_PERIOD):
        hook(100_000)
    dear = own_cpu.nanoseconds()
    for _ in range(40 * SAMPLING_PERIOD):
        hook(0)
    own_cpu.nanoseconds()
    before = own_cpu.nanoseconds()
    for _ in range(SAMPLING_PERIOD):
        hook(0)

    assert dear / (20 * SAMPLING_PERIOD) > 100_000
    assert own_cpu.nanoseconds() - before < SAMPLING_PERIOD * (WRAPPER_OVERHEAD_NS + 1_000)


def test_the_sum_never_falls_and_counts_each_call_once(clock):
    hook = own_cpu.timed("hook", clock.work)
    sums = []
    for number in range(50):
        hook(50_000 if number < 25 else 0)
        sums.append(own_cpu.nanoseconds())

    assert sums == sorted(sums)
    assert own_cpu.nanoseconds() == sums[-1]


def test_a_hook_that_raises_is_counted_and_its_error_passes(clock):
    def fails():
        clock.work(7)
        raise KeyError("mine")

    hook = own_cpu.timed("hook", fails)
    for _ in range(4):
        with pytest.raises(KeyError, match="mine"):
            hook()

    assert own_cpu.nanoseconds() == 4 * (7 + WRAPPER_OVERHEAD_NS)


def test_what_is_too_hot_to_be_timed_tells_its_own_estimate(clock):
    told = iter([100.0, 0.0, 30.0])
    own_cpu.add_source("collectives", lambda: next(told))

    assert [own_cpu.nanoseconds() for _ in range(3)] == [100, 100, 130]


def test_reading_the_clock_is_no_part_of_a_sample(clock, monkeypatch):
    monkeypatch.setattr(own_cpu, "_clock_reading_ns", 400)
    hook = own_cpu.timed("hook", clock.work)
    for _ in range(4):
        hook(1_000)

    assert own_cpu.nanoseconds() == 4 * (600 + WRAPPER_OVERHEAD_NS)


def test_a_forked_child_begins_at_zero(clock):
    hook = own_cpu.timed("hook", clock.work)
    for _ in range(20):
        hook(1_000)
    own_cpu.nanoseconds()
    own_cpu.reset()
    assert own_cpu.nanoseconds() == 0
    hook(1_000)
    hook(1_000)
    assert own_cpu.nanoseconds() == 2 * (1_000 + WRAPPER_OVERHEAD_NS)


def test_a_garbage_collection_within_one_sample_does_not_stay_in_the_estimate(clock):
    hook = own_cpu.timed("hook", clock.work)
    for call in range(320):
        # A sampled one: 200 ms that are not ours.
        hook(200_000_000 if call == 31 else 5_000)

    assert own_cpu.nanoseconds() < 2 * 320 * (5_000 + WRAPPER_OVERHEAD_NS)
