"""Pauses by real runs of the garbage collector; the clock is given where seconds are compared."""

from __future__ import annotations

import gc

import pytest

from otel_rl.runtime_metrics import garbage
from otel_rl.runtime_metrics.garbage import Pauses


@pytest.fixture
def pauses(monkeypatch):
    """Watches, with a clock that goes on by a quarter of a second at each reading."""
    readings = iter(number / 4 for number in range(10**6))
    monkeypatch.setattr(garbage, "clock", lambda: next(readings))
    found = Pauses()
    # Whatever the version of Python: no other thread changes what this one copies.
    found.are_timed = True
    gc.disable()
    found.reset()
    found.watch()
    yield found
    gc.enable()
    found.leave()


def test_a_forced_collection_is_counted_in_its_generation(pauses):
    gc.collect(0)
    gc.collect(2)
    gc.collect(2)

    assert (pauses.collections[0], pauses.collections[2]) == (1, 2)
    assert (pauses.seconds[0], pauses.seconds[2], pauses.total) == (0.25, 0.5, 0.75)


def test_a_collection_that_began_before_is_not_timed():
    found = Pauses()
    found._collector("stop", {"generation": 2})
    assert found.seconds == [0, 0, 0]


@pytest.mark.skipif(garbage.CAN_BE_TIMED, reason="of Python before 3.12")
def test_before_python_3_12_there_is_no_callback_and_collections_are_counted():
    found, callbacks = Pauses(), len(gc.callbacks)
    found.watch()
    before = found.collections[2]
    gc.collect()

    assert len(gc.callbacks) == callbacks
    assert found.collections[2] == before + 1


def test_a_generation_that_is_not_known_is_no_error(pauses):
    pauses._collector("start", {"generation": 7})
    pauses._collector("stop", {"generation": 7})
    assert pauses.seconds == [0, 0, 0]


def test_watching_twice_counts_once_and_leaving_takes_the_callback_away(pauses):
    pauses.watch()
    gc.collect(1)
    assert pauses.seconds[1] == 0.25
    callbacks = len(gc.callbacks)
    pauses.leave()
    pauses.leave()
    assert len(gc.callbacks) == callbacks - 1


def test_a_program_that_clears_the_callbacks_ends_it_without_an_error(pauses):
    before = list(gc.callbacks)
    gc.callbacks.clear()
    gc.collect(2)
    pauses.leave()
    gc.callbacks[:] = [callback for callback in before if callback != pauses._collector]

    assert pauses.seconds == [0, 0, 0]


def test_the_callback_makes_nothing_that_the_collector_follows(pauses):
    gc.collect()
    before = gc.get_count()[0]
    for _ in range(1_000):
        pauses._collector("start", {"generation": 0})
    assert gc.get_count()[0] - before < 100
