"""Shared by the tests of steps and phases: a clock that stands still, and both ways to record."""

from __future__ import annotations

import pytest

from otel_rl.core import clock as clocks
from otel_rl.telemetry import deferral
from otel_rl.training import steps

SECOND = 1_000_000_000


class Clock:
    def __init__(self):
        self.seconds = 0
        self.epoch = 1000

    def counter(self):
        return float(self.seconds)

    def now(self):
        return (self.epoch + self.seconds) * SECOND

    def passes(self, seconds):
        self.seconds += seconds

    def set_forward(self, seconds):
        self.epoch += seconds


class IdleIoThread:
    """Leaves what is posted where it is, until a test looks."""

    started = True

    def wake(self):
        """Nothing: the test drains."""


class Drained:
    """What has been recorded, with what was posted."""

    def __init__(self, recorded):
        self._recorded = recorded

    def __getattr__(self, name):
        deferral.drain_all()
        return getattr(self._recorded, name)


@pytest.fixture
def idle_io_thread(recorded):
    """What is posted waits until the test drains."""
    deferral.accept_posts(IdleIoThread())
    yield
    steps.finish()
    deferral.accept_posts(None)
    deferral.drain_all()


@pytest.fixture(params=["in place", "posted"])
def posts(recorded, request):
    """Recordings happen in place, or when the test drains."""
    if request.param == "posted":
        request.getfixturevalue("idle_io_thread")
    yield
    steps.finish()


@pytest.fixture
def recordings(recorded, posts):
    """What is recorded in place, and by an I/O thread."""
    return Drained(recorded)


@pytest.fixture
def clock(monkeypatch):
    """Both clocks, set by the test."""
    found = Clock()
    monkeypatch.setattr(clocks, "counter", found.counter)
    monkeypatch.setattr(clocks, "now", found.now)
    return found
