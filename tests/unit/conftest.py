"""Shared by the unit tests: an I/O thread that records what the program's threads leave to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.pipeline.io_thread import IoThread


@pytest.fixture
def io_thread(recorded) -> Iterator[IoThread]:
    """A real I/O thread without exporters: it records only what it is asked for."""
    from otel_rl.pipeline.io_thread import IoThread
    from otel_rl.pipeline.last_delivery import LastDelivery
    from otel_rl.telemetry import deferral
    from otel_rl.training import steps

    class Thread(IoThread):
        def flush_now(self) -> None:
            deadline = time.monotonic() + 10
            assert self.post(lambda: True, deadline).wait()

    thread = Thread("otel-rl-test")
    deferral.accept_posts(thread)
    yield thread
    steps.finish()
    deferral.accept_posts(None)
    deferral.drain_all()
    LastDelivery(thread, time.monotonic() + 10).wait()
    assert not thread.started
