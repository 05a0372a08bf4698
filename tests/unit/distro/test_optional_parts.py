"""Parts that are loaded when they are needed: what a signal handler raises meanwhile is the program's."""

from __future__ import annotations

import signal
import sys

import pytest

from otel_rl import instrumentor_status
from otel_rl.distro import configurator


class Interrupted(Exception):  # noqa: N818 - the program's name
    """Raised by the signal handler of the program."""


PARTS = {
    "otel_rl.pressure.observed": configurator._load,
    "otel_rl.health.live": configurator._start_health,
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
    _forget(monkeypatch, "otel_rl.pressure.observed")
    _at_import(monkeypatch, "otel_rl.pressure.observed", lambda: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, lambda *_: found.append(configurator._loaded()))
    try:
        assert configurator._loaded()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == [False]
