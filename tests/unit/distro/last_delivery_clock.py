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


#: Real seconds that a jump is waited for. Then the clock jumps past every deadline, so that the test fails.
_PATIENCE = 50


class _LooksOften(Event):
    """A wake-up that waits 5 ms at most, so that the last delivery reads the clock often."""

    def wait(self, timeout: float | None = None) -> bool:
        was_set = super().wait(min(timeout or 0.0, 0.005))
        self.clear()
        return was_set


class Clock:
    """The clock that `last_delivery` and `exporters` read, an hour ahead of the clock of other modules."""

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
        """Jump to ``seconds`` once ``happened`` returns true; jumps are taken in the order in which they were added."""
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
