"""A directory for rings, and the flight recorder of this process, armed for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_rl.core import instrumentor_status, settings
from otel_rl.flight_recorder import copies, recorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.flight_recorder.recorder import FlightRecorder


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "rings"
    directory.mkdir()
    monkeypatch.delenv("OTEL_RL_RING", raising=False)
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(directory))
    # A watchdog of another test has left its own in this process.
    monkeypatch.setattr(copies, "waiting_list", None)
    settings.reset()
    yield directory
    recorder.flight.disarm()
    settings.reset()
    instrumentor_status._outcomes.pop(recorder.NAME, None)


@pytest.fixture
def flight(rings: Path) -> FlightRecorder:
    recorder.flight.arm()
    return recorder.flight
