"""Delays the first export until the identity is final, then freezes it: no series may change its name."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.process import process_identity

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longest delay of the first export in seconds, for a process that may or may not join a process group.
HOLD_SECONDS = 30.0
#: The same for a rank that its launcher has numbered and that must still learn the run id. Its ranks will meet, but
#: loading a model can take minutes before they do.
MEETING_SECONDS = 300.0


@dataclass(eq=False, repr=False)
class Gate:
    """Closed until the identity is settled, for at most ``hold`` seconds, or ``meeting`` where the ranks will meet.

    A queue that fills up opens it early, see :mod:`otel_rl.pipeline.batching`.
    """

    hold: float = HOLD_SECONDS
    clock: Callable[[], float] = time.monotonic
    meeting: float = MEETING_SECONDS
    _asked: float | None = None
    _opened: bool = False

    def is_open(self) -> bool:
        """Return whether exports may begin; once open, the gate stays open."""
        if not self._opened:
            now = self.clock()
            self._asked = now if self._asked is None else self._asked
            hold = self.meeting if process_identity.will_meet() else self.hold
            if process_identity.settled() or now - self._asked >= hold:
                self.force_open()
        return self._opened

    def force_open(self) -> None:
        """Export from now on: the process ends, a queue fills up, or the program asked for a flush."""
        self._opened = True
        process_identity.freeze()

    def after_fork_in_child(self) -> None:
        """Close the gate again: the child waits for its own identity."""
        self._asked = None
        self._opened = False
