"""Code that a garbage collection runs knows it, and nobody else does."""

from __future__ import annotations

import gc
import threading

import pytest

from otel_rl.api import collecting

pytestmark = pytest.mark.skipif(not collecting.INTERRUPTS, reason="from Python 3.12 on nobody asks")


@pytest.fixture(autouse=True)
def watched():
    before = list(gc.callbacks)
    collecting.watch()
    yield
    gc.callbacks[:] = before


class Cycle:
    def __init__(self, asked):
        self.me, self.asked = self, asked

    def __del__(self):
        self.asked.append(collecting.runs_here())
        other = threading.Thread(target=lambda: self.asked.append(collecting.runs_here()))
        other.start()
        other.join()


def test_a_finaliser_that_a_collection_runs_knows_it_and_other_threads_are_told_no():
    asked = []
    Cycle(asked)
    assert not collecting.runs_here()
    gc.collect()
    assert asked == [True, False]
    assert not collecting.runs_here()


def test_a_finaliser_without_a_collection_is_told_no():
    asked = []
    cycle = Cycle(asked)
    del cycle.me, cycle
    assert asked == [False, False]


def test_the_callbacks_are_there_once():
    number = len(gc.callbacks)
    collecting.watch()
    assert len(gc.callbacks) == number
