"""The last delivery of an I/O thread's tasks, within a deadline that they share.

An exporter that waits for its server cannot be interrupted. So each task has a share of the time: when it is over, a
successor of the thread delivers what the others have, and the thread goes on with its own until the deadline.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from otel_rl.internal_errors import guard
from otel_rl.pipeline.io_thread import IoThread, Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.io_thread import Request, Task


class LastDelivery:
    """Flushes and closes every task of ``thread`` and ends the thread.

    Args:
        thread: The thread whose tasks they are.
        deadline: Time (``time.monotonic()``) at which what is left is given up.
        finish: The thread's last work.
        may_hand_over: False where two threads must not work at once, as on one file system.
    """

    def __init__(
        self,
        thread: IoThread,
        deadline: float,
        finish: Callable[[], object] = lambda: None,
        *,
        may_hand_over: bool = False,
    ) -> None:
        self._thread = thread
        self._deadline = deadline
        self._waiting = deque(thread.working_first())
        self._unfinished = set(self._waiting)
        #: A single task needs no successor; each further one at most one.
        self._successors = len(self._waiting) - 1 if may_hand_over else 0
        self._share_ends = self._end_of_share(len(self._waiting))
        self._progress = Wakeup()
        self._posted = [self._post_to(thread, finish)]

    def wait(self) -> None:
        """Wait until all is delivered or the deadline has passed; then what is left counts as lost."""
        while not self._done() and (now := time.monotonic()) < self._deadline:
            can_hand_over = self._successors > 0 and any(not task.busy for task in self._waiting.copy())
            if can_hand_over and now >= self._share_ends:
                self._hand_over()
                continue
            self._progress.wait((self._share_ends if can_hand_over else self._deadline) - now)
        for task in self._unfinished.copy():
            task.give_up()
        for thread, request in self._posted:
            if request.finished:
                thread.join(self._deadline)

    def _done(self) -> bool:
        _, first = self._posted[0]
        return first.refused or (first.finished and not self._unfinished)

    def _hand_over(self) -> None:
        self._successors -= 1
        self._share_ends = self._end_of_share(len(self._waiting))
        self._thread.retire()
        self._posted.append(self._post_to(IoThread(self._thread.name), lambda: None))

    def _post_to(self, thread: IoThread, finish: Callable[[], object]) -> tuple[IoThread, Request]:
        return thread, thread.post(partial(thread.end_with, partial(self._work, finish)), self._deadline)

    def _end_of_share(self, shares: int) -> float:
        now = time.monotonic()
        return now + (self._deadline - now) / max(shares, 1)

    def _work(self, finish: Callable[[], object]) -> None:
        """Deliver one task after the other. Called by the thread, and by its successor while it hangs."""
        try:
            while (task := self._take()) is not None:
                self._share_ends = self._end_of_share(len(self._waiting) + 1)
                self._progress.set()
                with guard(f"last_delivery.{self._thread.name}"):
                    task.flush(self._deadline)
                    task.close()
                self._unfinished.discard(task)
            finish()
        finally:
            self._progress.set()

    def _take(self) -> Task | None:
        """The next task that no other thread is at."""
        for _ in range(len(self._waiting)):
            with suppress(IndexError):  # another thread took the last one
                task = self._waiting.popleft()
                if not task.busy:
                    return task
                self._waiting.append(task)
        return None
