"""Collects steps and logged values where they are recorded, mostly on an I/O thread, and writes lines there.

No thread of the program waits for a line. A line comes at most once a second. Shorter steps are summed up in it.
"""

from __future__ import annotations

import os
import sys
import time
from threading import RLock
from typing import TYPE_CHECKING, Any

from otel_rl.console.categories import SHOWN
from otel_rl.console.line import StepsSummary, text
from otel_rl.core import stderr
from otel_rl.core.guard import guard
from otel_rl.health.durations import PHASES
from otel_rl.health.reward_columns import RewardSteps
from otel_rl.process import process_identity
from otel_rl.semconv import attributes
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.attribute_values import number
from otel_rl.training import scalars, trajectories
from otel_rl.training import steps as training_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.training.log_calls import LogCall

#: Shortest time between two lines in s.
INTERVAL = 1.0
#: Seconds that one recording waits for another one, of a thread that drains the same queue.
_LOCK_TIMEOUT = 1.0
#: Narrower than this a terminal does not say its width.
_NARROWEST = 20
#: Goes to the beginning of the line and clears it: a progress bar may stand there, and draws itself again.
_CLEAR = "\r\x1b[2K"


class StepConsole:
    """What waits for the next line."""

    def __init__(self, write: Callable[[str], None] = stderr.write_line) -> None:
        self._write = write
        self._waiting = StepsSummary()
        self._rewards = RewardSteps()
        self._written = float("-inf")
        self._lock = RLock()

    def logged(self, call: LogCall) -> None:
        """Take in a log call that has been recorded."""
        if call.iteration is None or not self._enter():
            return
        try:
            self._take(call.values)
            # Log calls may count something else, environment steps or epochs: the numbers of steps go first.
            if not self._waiting.steps:
                self._waiting.covers(call.iteration)
        finally:
            self._lock.release()

    def rows_recorded(self, step: training_steps.Step, body: Mapping[str, Any], iteration: int | None) -> None:
        """Take in the rows of rollouts that ended in ``step``."""
        if self._enter():
            try:
                self._rewards.add(body, iteration, step.iteration)
            finally:
                self._lock.release()

    def step_recorded(self, step: training_steps.Step, seconds: float, _end: int) -> None:
        """Take in a step that has been recorded with all its phases."""
        if not self._enter():
            return
        try:
            waiting = self._waiting
            if not waiting.steps:
                waiting.first = waiting.last = None
            waiting.covers(step.iteration)
            waiting.steps += 1
            waiting.seconds += seconds
            waiting.tokens += step.engine.get(attributes.RL_ENGINE_OUTPUT_TOKENS, 0)
            waiting.waits += step.waited
            by_metric = {PHASES[name]: total for name, total in step.totals().items() if name in PHASES}
            for kind, total in (by_metric | step.totals_of_kinds()).items():
                name = kind.removeprefix("rl.")
                waiting.phases[name] = waiting.phases.get(name, 0.0) + total
            # What the program logs itself under the same key wins.
            rewards = self._rewards.end(step.iteration)
            self._take({key: value for key, value in rewards.items() if key not in waiting.values})
        finally:
            self._lock.release()

    def _enter(self) -> bool:
        return self._lock.acquire(timeout=_LOCK_TIMEOUT)

    def _take(self, values: Mapping[str, Any]) -> None:
        for key in SHOWN & values.keys():
            value = number(values[key])
            if value is not None:
                self._waiting.values[key] = value

    def write_due(self) -> None:
        """Write a line about what waits, unless the last one is less than a second old."""
        if time.monotonic() - self._written >= INTERVAL:
            self.write()

    def write(self) -> None:
        """Write a line about what waits, if anything does."""
        leads = process_identity.current().leads_training
        # Of a program with PyTorch alone it is known only at the first export whether it leads.
        if not (leads or process_identity.settled()) or not self._enter():
            return
        try:
            waiting, self._waiting = self._waiting, StepsSummary()
            if waiting.last is None or not leads:
                return
            self._written = time.monotonic()
        finally:
            self._lock.release()
        width = _width()
        self._write(text(waiting) if width is None else _CLEAR + text(waiting, width))


def _width() -> int | None:
    """Return how many characters fit into a line of the terminal; None where standard error is none."""
    with guard("console.width"):
        stream: Any = sys.stderr
        if stream is not None and stream.isatty():
            columns = os.get_terminal_size(stream.fileno()).columns
            return columns - 1 if columns >= _NARROWEST else _NARROWEST
    return None


def start() -> None:
    """Write lines in this process from now on; called once."""
    console = StepConsole()
    scalars.sink.listeners.add(console.logged)
    trajectories.listeners.add(console.rows_recorded)
    training_steps.listeners.add(console.step_recorded)
    lifecycle.at_intervals(console.write_due)
    lifecycle.before_shutdown(console.write)
    # Recorded every second, and not only before an export.
    deferral.is_prompt = True
