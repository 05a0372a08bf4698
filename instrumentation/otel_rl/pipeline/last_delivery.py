"""The last delivery of an I/O thread's tasks, within a deadline that they share.

An exporter that waits for its server cannot be interrupted. So each task has a share of the time: when it is over, a
successor of the thread delivers what the others have, and the thread goes on with its own until the deadline.

An interpreter that starts no thread any more leaves all of this to the thread that ends the process, one task after
the other: an exporter that does not answer uses up the others' time then, whose items are kept in files.

A short program imports its exporters here. Without bytecode, or from a slow disk, that alone can take longer than the
deadline, so what is left after the import has a time of its own.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING

from otel_rl.core.guard import guard
from otel_rl.core.threads import Wakeup
from otel_rl.pipeline import exporters
from otel_rl.pipeline.io_thread import IoThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.io_thread import IoRequest, Task

#: Seconds that an exporter has at least from its import on.
AFTER_IMPORT = 0.5
#: Seconds between two looks at a share that has passed while nothing could be handed over.
_INTERVAL = 0.05


@dataclass(eq=False, repr=False)
class LastDelivery:
    """Flushes and closes every task of ``thread`` and ends the thread.

    Args:
        thread: The thread whose tasks they are.
        deadline: Time (``time.monotonic()``) at which what is left is given up.
        latest: The same where an exporter is still being imported then.
        progress: Time of the latest progress; after each the thread has ``patience`` seconds, until ``longest``.
        finish: The thread's last work.
        may_hand_over: False where two threads must not work at once, as on one file system.
    """

    thread: IoThread
    deadline: float
    finish: Callable[[], object] = lambda: None
    _: KW_ONLY
    latest: float = 0.0
    may_hand_over: bool = False
    progress: Callable[[], float] = lambda: 0.0
    patience: float = 0.0
    longest: float = 0.0

    def __post_init__(self) -> None:
        self._waiting = deque(self.thread.working_first())
        self._unfinished = set(self._waiting)
        #: A single task needs no successor; each further one at most one.
        self._successors = len(self._waiting) - 1 if self.may_hand_over else 0
        self._share_ends = self._end_of_share(len(self._waiting))
        self._progress = Wakeup()
        #: Threads that have done their part.
        self._ended: list[IoThread] = []
        self._request = self._post_to(self.thread, self.finish)

    def wait(self) -> None:
        """Wait until all is delivered or the deadline has passed; then what is left counts as lost."""
        while not self._done() and (now := time.monotonic()) < (limit := self._limit()):
            if now >= self._share_ends and self._can_hand_over():
                self._hand_over()
                continue
            look_again = max(self._share_ends, now + _INTERVAL) if self._successors else limit
            self._progress.wait(min(look_again, limit) - now)
        for task in self._unfinished.copy():
            task.give_up()
            self._unfinished.discard(task)
        for thread in self._ended:
            thread.join(self._limit())

    def _limit(self) -> float:
        """Return the deadline, or later: after an import at the end, and while the thread makes progress."""
        imported = time.monotonic() if exporters.opening.in_progress else exporters.opening.ended
        progressing = min(self.progress() + self.patience, self.longest)
        return max(self.deadline, min(imported + AFTER_IMPORT, self.latest), progressing)

    def _can_hand_over(self) -> bool:
        # A successor would wait for an import too.
        return (
            self._successors > 0
            and not exporters.opening.in_progress
            and any(not task.busy for task in self._waiting.copy())
        )

    def _done(self) -> bool:
        return self._request.refused or (self.thread in self._ended and not self._unfinished)

    def _hand_over(self) -> None:
        self._successors -= 1
        self._share_ends = self._end_of_share(len(self._waiting))
        self.thread.retire()
        self._post_to(IoThread(self.thread.name), lambda: None)

    def _post_to(self, thread: IoThread, finish: Callable[[], object]) -> IoRequest:
        return thread.post(partial(thread.end_with, partial(self._work, thread, finish)), self.deadline)

    def _end_of_share(self, shares: int) -> float:
        now = time.monotonic()
        return now + (self.deadline - now) / max(shares, 1)

    def _work(self, thread: IoThread, finish: Callable[[], object]) -> None:
        """Deliver one task after the other; called by ``thread``, which may be a successor."""
        try:
            while (task := self._take()) is not None:
                self._share_ends = self._end_of_share(len(self._waiting) + 1)
                with guard(f"last_delivery.{thread.name}"):
                    if not self._flush(task) and task.left:
                        task.give_up()
                    task.close()
                self._unfinished.discard(task)
            finish()
        finally:
            self._ended.append(thread)
            self._progress.set()

    def _flush(self, task: Task) -> bool:
        while not task.flush(limit := self._limit()):
            # Cut short, and meanwhile there is more time.
            if not limit <= time.monotonic() < self._limit() or task.in_outage:
                return False
        return True

    def _take(self) -> Task | None:
        """Return the next task that no other thread is at."""
        for _ in range(len(self._waiting)):
            with suppress(IndexError):  # another thread took the last one
                task = self._waiting.popleft()
                if not task.busy:
                    return task
                self._waiting.append(task)
        return None
