"""What the I/O thread does for the ring: the heartbeat, a copy in the run folder at intervals, and the end.

The ring lies in memory of its node. The copy is for postmortems elsewhere, and for a node that is lost.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from otel_rl.core.guard import remove_file, replace_file
from otel_rl.flight_recorder.recorder import flight

if TYPE_CHECKING:
    from mmap import mmap
    from pathlib import Path

    from otel_rl.flight_recorder.ring import Ring

#: Name of the copy in the folder of the process.
COPY = "flight.ring"
#: Seconds between two copies.
INTERVAL = 30.0
#: The same of the list of calls that have been open for long (:mod:`.waiting`).
WAITING_COPY = "flight.waits"
_MODE = 0o600
#: A process and its list; None where there never was one. A forked child finds its parent's.
waiting_list: tuple[int, Path] | None = None


def _own_list() -> Path | None:
    return waiting_list[1] if waiting_list is not None and waiting_list[0] == os.getpid() else None


class Copies:
    """Called by the files' I/O thread only, except for :meth:`beat`."""

    def __init__(self) -> None:
        self._copied: Ring | None = None
        self._next = self._next_list = 0.0

    def beat(self) -> None:
        """Write the heartbeat into the ring."""
        ring = flight.ring
        if ring is not None:
            ring.beat()

    def copy_when_due(self, directory: Path | None) -> None:
        """Copy the ring to ``directory``, the folder of this process, unless that was done a while ago."""
        ring, now = flight.ring, time.monotonic()
        calls = _own_list()
        if directory is not None and calls is not None and now >= self._next_list:
            self._next_list = now + INTERVAL
            with suppress(OSError):
                _copy_list(calls, directory)
        if ring is None or directory is None or (ring is self._copied and now < self._next):
            return
        self._copied, self._next = ring, now + INTERVAL
        flight.remove_old_once()
        # A full disk has been reported by the file store. The next attempt comes at its time.
        with suppress(OSError):
            _copy(ring, directory)

    def finish(self, directory: Path | None, reason: str | None) -> None:
        """Copy the ring, then remove it: the process ends in order, with ``reason`` the exception.

        Without a folder the ring of a process that failed stays where it is.
        """
        with suppress(OSError):
            _finish_list(directory, reason)
        ring = flight.ring
        if ring is None:
            return
        ring.finish(reason or "")
        with suppress(OSError):
            if directory is not None:
                _copy(ring, directory)
            if directory is not None or reason is None:
                remove_file(ring.path)


def _finish_list(directory: Path | None, reason: str | None) -> None:
    calls = _own_list()
    if calls is not None:
        if directory is not None:
            _copy_list(calls, directory)
        if directory is not None or reason is None:
            remove_file(calls)


def _copy_list(path: Path, directory: Path) -> None:
    """Copy the list of calls, or remove the copy where there is no list any more."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        remove_file(directory / WAITING_COPY)
        return
    _replace(directory, WAITING_COPY, content)


def _copy(ring: Ring, directory: Path) -> None:
    _replace(directory, COPY, ring.buffer)


def _replace(directory: Path, name: str, content: bytes | mmap) -> None:
    """Replace the copy in one step: a reader sees the old one or the new one.

    Raises:
        OSError: where the folder cannot be written.
    """
    temporary = directory / f".{name}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        replace_file(temporary, directory / name)
    except OSError:
        remove_file(temporary)
        raise
