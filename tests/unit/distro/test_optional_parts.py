"""Parts that are loaded when they are needed: what a signal handler raises meanwhile is the program's."""

from __future__ import annotations

import signal
import sys

import pytest

from otel_rl.core import instrumentor_status
from otel_rl.core.guard import RAISE_ENVIRONMENT_VARIABLE
from otel_rl.distro import configurator
from otel_rl.ranks import watchdog
from otel_rl.training import steps


class Interrupted(Exception):  # noqa: N818 - the program's name
    """Raised by the signal handler of the program."""


PARTS = {
    "otel_rl.runtime_metrics.observed": configurator._load,
    "otel_rl.health.live": lambda: configurator._start_health(None),
    "otel_rl.process.child_exits": lambda: configurator._follow_children(sys),
}


@pytest.fixture(params=PARTS)
def part(request, monkeypatch):
    """Name of a module that has not been loaded."""
    _forget(monkeypatch, request.param)
    return request.param


def _forget(monkeypatch, module):
    package, _, name = module.rpartition(".")
    monkeypatch.delitem(sys.modules, module, raising=False)
    if package in sys.modules:
        monkeypatch.delattr(sys.modules[package], name, raising=False)


def _at_import(monkeypatch, part, act):
    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == part:
                act()

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])


def test_what_a_signal_handler_raises_reaches_the_program(part, monkeypatch):
    def handler(*_):
        raise Interrupted

    _at_import(monkeypatch, part, lambda: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Interrupted):
            PARTS[part]()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_part_that_cannot_be_loaded_is_left_out(part, monkeypatch):
    def refuse():
        raise OSError(24, "Too many open files")

    reported = []
    monkeypatch.setattr(instrumentor_status, "report", lambda *given: reported.append(given[:2]))
    _at_import(monkeypatch, part, refuse)
    assert not PARTS[part]()
    assert reported in ([], [("pressure", "skipped")], [("health", "skipped")])


def test_a_signal_handler_that_records_while_the_first_record_loads_parts_finds_none_and_spoils_nothing(monkeypatch):
    found = []
    monkeypatch.setattr(configurator, "_is_loaded", None)
    _forget(monkeypatch, "otel_rl.runtime_metrics.observed")
    _at_import(monkeypatch, "otel_rl.runtime_metrics.observed", lambda: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, lambda *_: found.append(configurator._loaded()))
    try:
        assert configurator._loaded()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == [False]


@pytest.fixture
def following(monkeypatch):
    """Parts that start with the first step, each of which notes that it has; the second one can be made to fail."""
    started, errors = [], []

    def first(_):
        started.append("first")

    def second(_):
        if errors:
            raise errors.pop()
        started.append("second")

    monkeypatch.setattr(configurator, "_following", [second, first])
    monkeypatch.setattr(steps.openers, "callbacks", [configurator._first_step])
    return started, errors


def test_a_part_that_the_program_interrupts_starts_with_the_next_step_and_the_others_once(following):
    started, errors = following
    errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        configurator._first_step(None)
    configurator._first_step(None)
    configurator._first_step(None)
    assert started == ["first", "second"]


def test_a_part_that_fails_is_left_out_and_the_others_start(following, monkeypatch):
    monkeypatch.delenv(RAISE_ENVIRONMENT_VARIABLE, raising=False)
    started, errors = following
    errors.append(ValueError("ours"))
    configurator._first_step(None)
    assert started == ["first"]
    assert steps.openers.callbacks == []


def test_a_step_inside_of_the_first_one_starts_no_part_twice(following):
    started, _ = following
    openers = tuple(steps.openers.callbacks)
    for opener in (*openers, *openers):
        opener(None)
    assert started == ["first", "second"]


def test_a_signal_handler_that_opens_a_step_while_the_watchdog_loads_leaves_it_alone(monkeypatch):
    _forget(monkeypatch, "otel_rl.ranks.watchdog.thread")
    made = []
    monkeypatch.setattr(watchdog, "_watchdog", None)

    def handler(*_):
        made.append(watchdog._make())

    _at_import(monkeypatch, "otel_rl.ranks.watchdog.thread", lambda: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        assert watchdog._make() is not None
    finally:
        signal.signal(signal.SIGALRM, before)
    assert made == [None]
