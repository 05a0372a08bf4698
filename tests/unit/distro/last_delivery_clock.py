"""A clock of the last delivery that stands still until something has happened: no test depends on how fast it runs."""

from __future__ import annotations

import time
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING

from otel_rl.pipeline import exporters, last_delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


#: Real seconds after which nothing more will happen: a clock that stood still then would hide what is missing.
_PATIENCE = 50


class _LooksOften(Event):
    """What the last delivery waits for, which looks again soon: its clock jumps meanwhile."""

    def wait(self, timeout: float | None = None) -> bool:
        was_set = super().wait(min(timeout or 0.0, 0.005))
        self.clear()
        return was_set


class Clock:
    """Its seconds since the test began; for all others the deadline is an hour away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = time.monotonic() + 3600
        self._gives_up = time.monotonic() + _PATIENCE
        self.seconds = 0.0
        #: The latest time that somebody has read.
        self.read = -1.0
        self._jumps: list[tuple[Callable[[], object], float]] = []
        for module in (last_delivery, exporters):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self.now))
        monkeypatch.setattr(last_delivery, "Wakeup", _LooksOften)

    def jump(self, happened: Callable[[], object], seconds: float) -> None:
        """Jump to ``seconds`` once this has ``happened``, and what jumps before this wait for."""
        self._jumps.append((happened, seconds))

    def now(self) -> float:
        while self._jumps and self._jumps[0][0]():
            _, self.seconds = self._jumps.pop(0)
        if time.monotonic() > self._gives_up:
            self.seconds = 3600.0
        self.read = self.seconds
        return self.began + self.seconds

    def at(self, seconds: float) -> float:
        return self.began + seconds

    def was_read_at(self, seconds: float) -> bool:
        return self.read >= seconds
