"""The cost guard: measures what otel-rl costs per step, and records less where that is more than allowed.

After the first steps it looks at windows of several steps. Two shares count, the larger one is compared with the limit:

* our work on the program's threads, by the wall time: so much longer are the steps, at most;
* all our CPU time, by the wall time or the CPU time of the process, whichever is larger.

After two windows in a row above the limit it takes one rung of :mod:`otel_rl.core.reductions` at the end of the step,
and says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import instrumentor_status, own_cpu, reductions, settings, stderr
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import content_capture, deferral, lifecycle
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.core.reductions import Reduction

#: Steps that are not judged: they import, compile and warm up.
WARM_UP = 5
#: A window has at least so many steps, and lasts at least so many seconds: with less, the exports of our own threads,
#: every 5 and 15 s, would be in one window and not in the next.
WINDOW_STEPS, WINDOW_SECONDS = 10, 30.0
#: So many windows in a row must be above the limit: one may have hit a pause of the machine.
WINDOWS = 2
STATUS = "cost_guard"
LIMIT = "OTEL_RL_COST_LIMIT"
_NS = 1e-9

scope = Scope("telemetry")


class CpuSums(NamedTuple):
    """Sums in seconds up to one moment: ``program``, our work on the program's threads; ``own``, our threads."""

    wall: float
    cpu: float
    program: float
    own: float

    def since(self, earlier: CpuSums) -> CpuSums:
        """What was added between the two."""
        return CpuSums(*(now - then for now, then in zip(self, earlier, strict=True)))

    @property
    def share(self) -> float:
        """The figure that is compared with the limit, see the module."""
        if self.wall <= 0:
            return 0.0
        return max(self.program / self.wall, (self.program + self.own) / max(self.wall, self.cpu))


def read() -> CpuSums:
    """All sums now; some microseconds."""
    return CpuSums(
        time.perf_counter(), time.process_time(), own_cpu.nanoseconds() * _NS, own_cpu.threads_nanoseconds() * _NS
    )


class CostGuard:
    """Follows the steps of all loops; ``limit`` is a share, 0 only measures."""

    def __init__(self, limit: float, reader: Callable[[], CpuSums] = read) -> None:
        self._limit = limit
        self._read = reader
        self._steps = 0
        self._last: CpuSums | None = None
        self._window: CpuSums | None = None
        self._window_steps = 0
        #: How many in a row were above the limit.
        self._windows_above = 0
        self._has_told_the_end = False

    def step_opened(self, _: steps.Step) -> None:
        """The first step: what was before it belongs to none."""
        if self._last is None:
            self._last = self._read()

    def step_closing(self, step: steps.Step) -> None:
        """Put the figures of the step on its span, and judge the window that it ends."""
        now, before = self._read(), self._last
        self._last = now
        if before is not None and step.rank_span.is_recording():
            spent = now.since(before)
            step.rank_span.set_attributes(
                {
                    attributes.RL_TELEMETRY_CPU_TIME: spent.program + spent.own,
                    attributes.RL_LOOP_CPU_TIME: spent.cpu,
                }
            )
        self._steps += 1
        if self._steps == WARM_UP:
            self._begin_window(now)
        elif self._window is not None and self._limit:
            self._window_steps += 1
            self._judge(step, now, now.since(self._window))

    def _begin_window(self, now: CpuSums) -> None:
        self._window, self._window_steps = now, 0

    def _judge(self, step: steps.Step, now: CpuSums, window: CpuSums) -> None:
        if self._window_steps < WINDOW_STEPS or window.wall < WINDOW_SECONDS:
            return
        self._begin_window(now)
        self._windows_above = self._windows_above + 1 if window.share > self._limit else 0
        if self._windows_above < WINDOWS:
            return
        self._windows_above = 0
        took = f"otel-rl took {window.share:.2%} of the time of the steps, more than {self._limit:.2%} ({LIMIT})"
        reduction = reductions.take_next()
        if reduction is not None:
            _tell(reduction, step, window.share, took)
        elif not self._has_told_the_end:
            self._has_told_the_end = True
            _say(f"otel-rl: step {step.iteration}: nothing more is left out{_kept()}; {took}")

    def forked(self) -> None:
        """A forked child measures its own steps from the beginning."""
        reductions.reset()
        self._steps, self._last, self._window = 0, None, None
        self._windows_above, self._has_told_the_end = 0, False


def start(step: steps.Step) -> None:
    """Follow the steps of this process; called once, when the first ``step`` has opened."""
    guard = CostGuard(settings.current().cost_limit / 100)
    steps.add_opener(guard.step_opened)
    steps.add_contributor(guard.step_closing)
    lifecycle.after_fork_in_child(guard.forked)
    guard.step_opened(step)


def _say(line: str) -> None:
    """One process of the run says it."""
    if process_identity.current().rank in (0, None):
        stderr.write_line(line)


def _kept() -> str:
    if not any(content_capture.capture()):
        return ""
    return f": content stays, as {content_capture.CAPTURE_ENVIRONMENT_VARIABLE} is set"


def _tell(reduction: Reduction, step: steps.Step, share: float, took: str) -> None:
    """Report it on stderr, in the status and as an event."""
    words = "; ".join(one.words for one in reductions.taken())
    instrumentor_status.report(STATUS, instrumentor_status.DEGRADED, f"{took}: {words}")
    _say(f"otel-rl: from step {step.iteration} on less is recorded: {reduction.words}; {took}")
    values = {
        attributes.RL_TELEMETRY_REDUCTION: reduction.name,
        attributes.RL_TELEMETRY_CPU_SHARE: share,
        attributes.RL_LOOP_ITERATION: step.iteration,
    }
    deferral.post(
        Signal.LOGS,
        lambda: scope.event(events.RL_TELEMETRY_REDUCED, attributes=values, context=step.context),
    )
