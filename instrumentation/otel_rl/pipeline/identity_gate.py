"""Holds the first export back while the rank can still become known: a series must not change its identity."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_rl.process import process_identity

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longest delay of the first export in seconds; a job that never joins a process group exports then.
HOLD_SECONDS = 30.0


class Gate:
    """Closed while ``torch.distributed`` is loaded and no rank is known, for at most ``hold`` seconds."""

    def __init__(self, hold: float = HOLD_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._hold = hold
        self._clock = clock
        self._asked: float | None = None
        self._opened = False

    def is_open(self) -> bool:
        """Whether exports may begin; once open it stays open."""
        if not self._opened:
            now = self._clock()
            self._asked = now if self._asked is None else self._asked
            self._opened = process_identity.settled() or now - self._asked >= self._hold
        return self._opened

    def force_open(self) -> None:
        """The process ends or the program asked for a flush: no more waiting."""
        self._opened = True

    def after_fork_in_child(self) -> None:
        """The child waits on its own account."""
        self._asked = None
        self._opened = False
