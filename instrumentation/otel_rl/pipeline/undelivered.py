"""What no destination took, in the run's files: in the file store's own form, for ``otel-rl report`` and ``replay``.

The files' thread writes it, like everything in the store. Nothing is opened before the first batch.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from otel_rl.core import threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.io_thread import IoThread
    from otel_rl.pipeline.sink import Sink

#: Most exports that wait for the file system; one is a batch of a queue, or a collection of metrics.
MAXIMUM_WAITING = 64
#: Until its first batch, and after each, it has nothing to do for this long: a task that never runs asks for posts.
_LONG = 3600.0


class Undelivered:
    """A task of the files' thread that writes what :meth:`keep` was given."""

    #: As with log records, its next run does not decide when the thread takes what was posted.
    signal = "logs"
    failing = False
    busy = False
    in_outage = False

    def __init__(self, thread: IoThread, open_exporter: Callable[[str], Any]) -> None:
        """Write on ``thread``, with what ``open_exporter`` returns for a signal."""
        self._open = open_exporter
        self._thread = thread
        self._exporters: dict[str, Any] = {}
        self._waiting: deque[tuple[Sink, Any, bool]] = deque()
        # What is being written. Whoever takes it out accounts for it.
        self._in_hand: deque[tuple[Sink, Any, bool]] = deque()
        thread.tasks.append(self)

    def keep(self, sink: Sink, data: Any, *, unanswered: bool) -> bool:
        """Leave ``data`` to the files' thread; False where too much waits for it, or there is no thread."""
        if len(self._waiting) >= MAXIMUM_WAITING:
            return False
        self._waiting.append((sink, data, unanswered))
        # Without a thread at the end, the last delivery to files writes it.
        if not self._thread.start() and not threads.interpreter_is_ending:
            self._waiting.pop()
            return False
        self._thread.wake()
        return True

    @property
    def left(self) -> int:
        """Exports that wait."""
        return len(self._waiting) + len(self._in_hand)

    @property
    def pending(self) -> bool:
        """True while there is something to write."""
        return self.left > 0

    def next_run(self) -> float:
        """Now, where there is something to write."""
        return 0.0 if self._waiting else time.monotonic() + _LONG

    def run(self) -> None:
        """Write what waits."""
        self.flush(math.inf)

    def flush(self, deadline: float) -> bool:
        """Write what waits; False when the deadline passed."""
        while self._waiting and time.monotonic() < deadline:
            self._in_hand.append(self._waiting.popleft())
            sink, data, unanswered = self._in_hand[0]
            written = self._write(sink.signal, data)
            with suppress(IndexError):  # the time was up meanwhile
                self._in_hand.pop()
                if not written:
                    sink.unkept(data, unanswered=unanswered)
        return not self._waiting

    def _write(self, signal: str, data: Any) -> bool:
        exporter = self._exporters.get(signal)
        try:
            if exporter is None:
                exporter = self._open(signal)
                self._exporters[signal] = exporter
            return bool(exporter.export(data).name == "SUCCESS")
        except Exception:  # noqa: BLE001 - an item that cannot be encoded, a process that can import no more
            return False

    def close(self) -> None:
        """Do nothing: the process closes the store."""

    def give_up(self) -> None:
        """Count what waits as lost: the deadline has passed."""
        for source in (self._in_hand, self._waiting):
            with suppress(IndexError):  # until it is empty
                while True:
                    sink, data, unanswered = source.popleft()
                    sink.unkept(data, unanswered=unanswered)

    def after_fork_in_child(self) -> None:
        """Start with nothing: what waits is the parent's."""
        self._waiting.clear()
        self._in_hand.clear()
        self._exporters.clear()
