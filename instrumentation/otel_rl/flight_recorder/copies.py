"""What the I/O thread does for the ring: the heartbeat, a copy in the run folder at intervals, and the end.

The ring lies in memory of its node. The copy is for postmortems elsewhere, and for a node that is lost.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from otel_rl.flight_recorder.recorder import flight

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.flight_recorder.ring import Ring

#: Name of the copy in the folder of the process.
COPY = "flight.ring"
#: Seconds between two copies.
INTERVAL = 30.0
_MODE = 0o600


class Copies:
    """Called by the files' I/O thread only, except for :meth:`beat`."""

    def __init__(self) -> None:
        self._copied: Ring | None = None
        self._next = 0.0

    def beat(self) -> None:
        """Write the heartbeat into the ring."""
        ring = flight.ring
        if ring is not None:
            ring.beat()

    def copy_when_due(self, directory: Path | None) -> None:
        """Copy the ring to ``directory``, the folder of this process, unless that was done a while ago."""
        ring, now = flight.ring, time.monotonic()
        if ring is None or directory is None or (ring is self._copied and now < self._next):
            return
        self._copied, self._next = ring, now + INTERVAL
        # A full disk has been reported by the file store. The next attempt comes at its time.
        with suppress(OSError):
            _copy(ring, directory)

    def finish(self, directory: Path | None, reason: str | None) -> None:
        """Copy the ring, then remove it: the process ends in order, with ``reason`` the exception.

        Without a folder the ring of a process that failed stays where it is.
        """
        ring = flight.ring
        if ring is None:
            return
        ring.finish(reason or "")
        with suppress(OSError):
            if directory is not None:
                _copy(ring, directory)
            if directory is not None or reason is None:
                ring.path.unlink(missing_ok=True)


def _copy(ring: Ring, directory: Path) -> None:
    """Replace the copy in one step: a reader sees the old one or the new one.

    Raises:
        OSError: where the folder cannot be written.
    """
    temporary = directory / f".{COPY}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(ring.buffer)
        temporary.replace(directory / COPY)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
