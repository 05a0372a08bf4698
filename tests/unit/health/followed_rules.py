"""The rules of a process, for as long as a test takes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from otel_rl.health import live
from otel_rl.telemetry import lifecycle
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.health.live import LiveHealth
    from otel_rl.training.scalars import ScalarSink


@contextmanager
def followed(health: LiveHealth, sink: ScalarSink) -> Iterator[None]:
    """Let ``health`` follow ``sink`` and the steps of this process; leave nothing but its gauge."""
    sink.listeners.add(health.logged)
    steps.listeners.add(health.step_recorded)
    steps.contributors.add(live.note_calls)
    yield
    steps.finish()
    steps.listeners.remove(health.step_recorded)
    steps.contributors.remove(live.note_calls)
    if health.finish in lifecycle.before_shutdown:
        lifecycle.before_shutdown.remove(health.finish)
    health.forked()
