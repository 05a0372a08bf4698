"""The thread: it wakes about once a second, compares the signs of progress, and reports what has stood still too long.

It takes no lock that the program may hold. What it needs is imported before it starts. Where it waits all the same, as
in a log handler of the program, only the watchdog waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core.guard import guard
from otel_rl.core.threads import PeriodicThread
from otel_rl.flight_recorder.recorder import flight
from otel_rl.ranks.watchdog import monotonic, open_operations, peers, reports, stacks, waits_between_steps
from otel_rl.ranks.watchdog.calls import CallWatch
from otel_rl.ranks.watchdog.parts import PartWatch
from otel_rl.ranks.watchdog.step_times import MAY_BE_LONG, StepTimes
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.telemetry import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "otel-rl-watchdog"
#: Longest sleep in seconds; each wake-up is a heartbeat too.
_LONGEST_SLEEP = 1.0
#: The watchdog wakes at least so often within its limit.
_LOOKS = 10
#: Between guessed steps it reads the rings again when the time without progress is so many times as long.
_LESS_OFTEN = 1.25
#: Phases in which it is one only after a call has ended in them: an engine in this process shows nothing.
_GENERATING = frozenset({RlPhaseValues.SAMPLE, RlPhaseValues.GENERATE})


class Watchdog:
    """Of one process; :meth:`look` is what the thread does each time it wakes."""

    def __init__(self, minimum: float) -> None:
        self.times = StepTimes(minimum)
        self.calls = CallWatch(minimum)
        self.parts = PartWatch(minimum)
        self._sleep = min(_LONGEST_SLEEP, minimum / _LOOKS)
        self._thread = PeriodicThread(NAME, self._sleep, self.look)
        self._signs: tuple[object, ...] = ()
        #: Phases that had begun or ended, and the calls that had ended when this number changed last.
        self._phases = -1
        self._calls_before = 0
        self._looked: float | None = None
        #: Seconds without progress in which this thread ran.
        self._still = 0.0
        #: When it has read the rings between steps: seconds without progress until it does so again.
        self._read_at = 0.0
        #: Until just now it was in work that may be long.
        self._was_excused = False
        #: It sees a hang, which it has reported.
        self.sees_hang = False
        #: What was open when it was reported.
        self._inside: open_operations.Operations | None = None

    def start(self) -> None:
        """Start the thread unless it runs."""
        self._thread.start()

    def end(self) -> None:
        """End the thread; it looks a last time: the program may have ended soon after a hang."""
        self._thread.end()

    def rest(self) -> None:
        """Take back the heartbeat after :meth:`end`, where the process goes on without the thread."""
        if flight.ring is not None:
            flight.ring.rest()

    def look(self) -> float:
        """Compare, judge, report; return the seconds until the next look."""
        self._look()
        return self._sleep

    def _look(self) -> None:
        ring = flight.ring
        if ring is not None:
            ring.beat()
        now = monotonic()
        # A process that was stopped, and a machine that slept, did not hang: this thread did not run either.
        since_look, self._looked = now - (self._looked or now), now
        passed = min(since_look, 2 * self._sleep)
        self.times.update()
        with guard("watchdog.calls"):
            in_step = self.times.step is not None and not MAY_BE_LONG.intersection(progress.open_phases())
            self.calls.look(now, since_look - passed, in_step=in_step, step_threads=self.times.threads())
        calls = (progress.made[progress.CALLS], progress.of_sources())
        phases = progress.made[progress.PHASES]
        if phases != self._phases:
            self._phases, self._calls_before = phases, calls[0]
        # In a step, parts are what it hangs in.
        if self.times.limit() is None or MAY_BE_LONG.intersection(progress.open_phases()):
            with guard("watchdog.parts"):
                self.parts.look(now, passed)
        signs = (self.times.seen, phases, calls, self._parts())
        if signs != self._signs:
            self._signs = signs
            self._go_on()
            return
        self._still += passed
        limit = self.times.limit()
        if limit is None:
            self._look_between_steps(calls[0])
        elif not self.sees_hang and self._still >= limit and not self._may_be_long(calls[0]):
            self._report(limit)

    def _look_between_steps(self, calls: int) -> None:
        """Look whether ranks wait for each other though no step is open: guessed ones begin late."""
        ring, limit, before = flight.ring, self.times.limit_between_steps(), self.times.guessed_before()
        if self.sees_hang or ring is None or limit is None or before is None or self._may_be_long(calls):
            return
        if self._still < max(limit, self._read_at):
            return
        self._read_at = _LESS_OFTEN * self._still
        waiting = waits_between_steps.find(ring.path, limit)
        if waiting is not None:
            self._report(limit, before, waiting)

    def _sees_hang(self, sees_hang: bool) -> None:
        """Note whether it sees a hang, for the other ranks of this node too."""
        self.sees_hang = sees_hang
        if flight.ring is not None:
            flight.ring.hangs(sees_hang=sees_hang)

    def _parts(self) -> int:
        """Parts of phases that began in the open step."""
        step = self.times.step
        return step.spans_taken if step is not None else 0

    def _go_on(self) -> None:
        seconds, self._still, self._read_at, self._was_excused = self._still, 0.0, 0.0, False
        if self.sees_hang:
            self._sees_hang(False)
            inside, self._inside = self._inside, None
            reports.hang_over(seconds, None if inside is None else open_operations.failed(inside, seconds))

    def _may_be_long(self, calls: int) -> bool:
        """Return whether this is work that shows no progress for as long as it likes."""
        phases = frozenset(progress.open_phases())
        return bool(phases & MAY_BE_LONG) or (bool(phases & _GENERATING) and calls == self._calls_before)

    def _report(self, limit: float, after: int | None = None, waiting: Sequence[str] = ()) -> None:
        captured, ring = stacks.capture(), flight.ring
        others = peers.find_peers(ring.path) if ring is not None else []
        # A peer in such a phase is what this process waits for.
        if captured.are_in_long_work or any(peer.phases & MAY_BE_LONG for peer in others):
            # Looks again after a part of the limit, to see when it is over.
            self._was_excused, self._still, self._read_at = True, limit * (1 - 1 / _LOOKS), 0.0
            return
        if self._was_excused:
            # What follows gets the whole limit.
            self._was_excused, self._still, self._read_at = False, 0.0, 0.0
            return
        self._sees_hang(True)
        self._inside = inside = open_operations.find_operations(
            self.times.step, captured.collective, self.calls.hanging(), self.calls.told_in(self.times.threads()), after
        )
        told = [*waiting, *peers.silent(others)]
        reports.hang(reports.Hang(self._still, limit, inside, told), captured.text, self.times.step)
