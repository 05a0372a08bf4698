"""Ends of children as events: those that somebody meant are no errors."""

from __future__ import annotations

import signal

import pytest

from otel_rl.ending import children
from otel_rl.process import child_exits, exit_records, lifetime
from otel_rl.telemetry import lifecycle

WHO = lifetime.Lifetime("boot", 4711, 99, 1)


class _Ended:
    def is_alive(self):
        return False


def _severity(recorded, status, oom_kills=0):
    children.report(exit_records.make(WHO, status, None, child_exits.PARENT, oom_kills))
    [event] = recorded.events("rl.process.exit")
    return event.severity_text


def test_a_child_that_is_killed_is_an_error(recorded):
    assert _severity(recorded, -signal.SIGKILL) == "ERROR"


@pytest.mark.parametrize(("oom_kills", "severity"), [(0, "INFO"), (1, "ERROR")])
def test_one_that_ray_kills_with_its_worker_is_none_unless_memory_was_short(recorded, monkeypatch, oom_kills, severity):
    monkeypatch.setattr(lifecycle, "may_be_killed", True)
    monkeypatch.setattr(children, "main_thread", _Ended)
    assert _severity(recorded, -signal.SIGKILL, oom_kills) == severity


def test_one_that_is_killed_while_its_worker_goes_on_is_an_error(recorded, monkeypatch):
    monkeypatch.setattr(lifecycle, "may_be_killed", True)
    assert _severity(recorded, -signal.SIGKILL) == "ERROR"
