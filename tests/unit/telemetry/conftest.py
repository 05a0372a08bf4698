"""Shared by the tests of the telemetry layer."""

from __future__ import annotations

import pytest

from otel_rl.telemetry import deferral


@pytest.fixture
def queued(monkeypatch):
    """What enters the queue. A thread of another test may drain it at any moment: what it holds proves nothing."""
    entered, later = [], deferral.later

    def enter(signal, recording):
        entered.append(recording)
        return later(signal, recording)

    monkeypatch.setattr(deferral, "later", enter)
    return entered
