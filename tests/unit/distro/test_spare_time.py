"""What an I/O thread does when nothing else is to be done: no flush and no exit waits for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from otel_rl.pipeline import io_thread
from otel_rl.pipeline.io_thread import IoThread

if TYPE_CHECKING:
    import pytest


class Endless:
    """Work that is never done."""

    def __init__(self) -> None:
        self.calls = 0
        self.goes_on = threading.Event()

    def __call__(self) -> bool:
        self.calls += 1
        if self.calls == 5:
            self.goes_on.set()
        return True


def _working(work: Endless) -> IoThread:
    thread = IoThread("otel-rl-test")
    thread.spare_time.append(work)
    thread.start()
    # Without another call the thread sleeps a second before each.
    assert work.goes_on.wait(60)
    return thread


def test_work_goes_on_until_the_thread_ends_and_not_during_a_flush_or_the_end() -> None:
    work = Endless()
    thread = _working(work)
    seen = []

    def flush() -> bool:
        seen.append(work.calls)
        thread.flush(time.monotonic() + 60)
        seen.append(work.calls)
        return True

    assert thread.post(flush, time.monotonic() + 60).wait()
    last = thread.post(lambda: thread.end_with(lambda: seen.append(work.calls)), time.monotonic() + 60)
    assert last.wait()
    thread.join(time.monotonic() + 60)
    assert seen[0] == seen[1] <= seen[2] == work.calls


def test_work_that_is_done_is_looked_at_again_with_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # No turn but those that are asked for.
    monkeypatch.setattr(io_thread, "_LONGEST_SLEEP", 3600.0)
    calls, called = [], threading.Semaphore(0)

    def work() -> bool:
        calls.append(1)
        called.release()
        return False

    thread = IoThread("otel-rl-test")
    thread.spare_time.append(work)
    assert thread.post(lambda: True, time.monotonic() + 60).wait()
    assert called.acquire(timeout=60)
    thread.wake()
    assert called.acquire(timeout=60)
    assert thread.post(lambda: thread.end_with(lambda: None), time.monotonic() + 60).wait()
    thread.join(time.monotonic() + 60)
    assert len(calls) == 2
