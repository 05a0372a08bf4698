"""Calls that a worker of Ray executes; `tests/integration/ray` has those of a real one."""

from __future__ import annotations

import pytest

from otel_rl.instrumentors.ray import execution


@pytest.mark.usefixtures("recorded")
def test_only_a_call_that_ends_alone_may_wait_for_long(monkeypatch):
    now = iter((0.0, 10.0, 70.0, 90.0))
    monkeypatch.setattr(execution.deferral, "now", lambda: execution.deferral.Moment(next(now), 0))
    first, second = execution._ExecutedCall("Server.generate", {}), execution._ExecutedCall("Server.generate", {})
    assert first.end() == 0.0
    assert second.end() == pytest.approx(80)
