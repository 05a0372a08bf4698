"""Which steps are written to the program's tracker, and when: each recorded step, soon after, on an I/O thread of ours.

What a tracker does with a value may take a while: it happens neither on the program's thread nor while steps are being
recorded. Only where the program closes its tracker, the values that wait are written in that call.
"""

from __future__ import annotations

import atexit
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import instrumentor_status
from otel_rl.core.threads import allocate_lock
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle
from otel_rl.trackers.write_back import figures
from otel_rl.trackers.write_back.writers import WRITERS
from otel_rl.training import open_trackers, scalars, steps, trajectories

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.pipeline.providers import Telemetry

#: Steps that wait: before the program's first log call, or while the tracker is slow.
MAXIMUM_WAITING = 256
#: Failures in a row after which a tracker is given up.
MAXIMUM_FAILURES = 5
#: Seconds that the program waits, where it closes its tracker, for a value that is being written.
_PATIENCE = 1.0


class StepFigures(NamedTuple):
    """A step and what is written of it."""

    iteration: int
    values: dict[str, float]


class WriteBack:
    """Writes the steps of this process to one tracker of the program's."""

    def __init__(self, tracker: str) -> None:
        self.tracker = tracker
        self._write = WRITERS[tracker]
        self._written_to: Any = None
        self._failures = 0
        self._waiting: deque[StepFigures] = deque()

    def add(self, step: StepFigures) -> None:
        """Have ``step`` written; of more than wait already the oldest is dropped and counted."""
        if len(self._waiting) >= MAXIMUM_WAITING:
            drops.count(Signal.METRICS, "queue_full", len(self._waiting.popleft().values))
        self._waiting.append(step)

    def write_waiting(self) -> None:
        """Write what waits, where the program has logged to the tracker."""
        writer = open_trackers.find(self.tracker)
        while writer is not None and self._waiting:
            step = self._waiting.popleft()
            if self._failures < MAXIMUM_FAILURES:
                self._write_one(writer, step)

    def _write_one(self, writer: Any, step: StepFigures) -> None:
        try:
            with scalars.not_captured():
                self._write(writer, step.iteration, step.values, is_first=self._written_to is not writer)
        except Exception as error:  # noqa: BLE001 - a tracker of anybody's, in whatever state
            self._failures += 1
            drops.count(Signal.METRICS, "export_failed", len(step.values))
            reason = f"{self.tracker}: {type(error).__name__}"
            instrumentor_status.report("write_back", instrumentor_status.DEGRADED, reason)
        else:
            self._failures = 0
            self._written_to = writer

    def forget(self) -> None:
        """In a forked child: what waits is the parent's."""
        self._waiting.clear()


class StepWatch:
    """Collects what belongs to a step until it has been recorded, and hands it to each tracker."""

    def __init__(self, trackers: tuple[str, ...]) -> None:
        self._targets = [WriteBack(tracker) for tracker in trackers]
        self._rows: dict[steps.Step, list[Mapping[str, Any]]] = {}
        self._writing = allocate_lock()

    def rows_recorded(self, step: steps.Step, body: Mapping[str, Any], _: int | None) -> None:
        """Take in columns of rollouts that ended in ``step``."""
        if process_identity.current().leads_training:
            self._rows.setdefault(step, []).append(body)

    def step_recorded(self, step: steps.Step, seconds: float, _: int) -> None:
        """Take in a step that has been recorded with all its phases."""
        rows = self._rows.pop(step, [])
        if process_identity.current().leads_training and step.is_own:
            known = StepFigures(step.iteration, figures.of_step(step, seconds, rows))
            for target in self._targets:
                target.add(known)

    def write(self, patience: float = 0.0) -> None:
        """Write what waits, unless another thread is at it for longer than ``patience`` seconds."""
        if self._writing.acquire(timeout=patience):
            try:
                for target in self._targets:
                    target.write_waiting()
            finally:
                self._writing.release()

    def catch_up(self) -> None:
        """Record and write what waits: a tracker is about to be closed."""
        deferral.drain_all()
        self.write(_PATIENCE)

    def forget(self) -> None:
        """In a forked child: all of this is the parent's."""
        self._rows.clear()
        self._writing = allocate_lock()
        for target in self._targets:
            target.forget()


def begin(trackers: tuple[str, ...], telemetry: Telemetry) -> None:
    """Follow the steps of this process."""
    watch = StepWatch(trackers)
    open_trackers.follow(trackers, watch.catch_up, lambda: atexit.register(watch.catch_up))
    trajectories.listeners.add(watch.rows_recorded)
    steps.listeners.add(watch.step_recorded)
    lifecycle.after_fork_in_child(watch.forget)
    for thread in telemetry.threads:
        thread.chores.append(watch.write)
