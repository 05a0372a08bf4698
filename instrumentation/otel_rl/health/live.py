"""The rules while the job runs: in the leading process, where recordings are made, mostly on an I/O thread.

Values come from the scalar sink when a log call is recorded, rewards of the program's own loop from the rows of its
rollouts when their record is made, durations when a step has been recorded. The gauge ``rl.health``
has the state of each rule, an event records each change for the worse and its end.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber

from otel_rl.core import instrumentor_status, settings, stderr
from otel_rl.core.guard import guard
from otel_rl.health import user_rules
from otel_rl.health.calls import CallsOfSteps
from otel_rl.health.durations import BETWEEN, GUESSED_PARTS, OTHER_PHASES, PHASES
from otel_rl.health.monitor import Monitor
from otel_rl.health.reward_columns import REWARD, UNSCORED, RewardSteps
from otel_rl.health.verdict import State
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.telemetry import deferral, lifecycle, progress
from otel_rl.telemetry.scope import Scope
from otel_rl.training import scalars, steps, trajectories, trajectory_shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.context import Context

    from otel_rl.health.monitor import StateChange
    from otel_rl.health.rule_definitions import Rules
    from otel_rl.training.log_calls import LogCall

#: Most loops of the process that are followed; of more, the oldest is given up.
MAXIMUM_LOOPS = 8
#: The gauge has the states of loops that had one of so many latest steps of the process.
ACTIVE_STEPS = 100
#: Seconds that one recording waits for another one, of a thread that drains the same queue.
LOCK_TIMEOUT = 1.0
STATUS = "health"
scope = Scope("health")


class _LiveLoop:
    """A loop with its monitor."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.rewards = RewardSteps()
        #: Its last step: the number, and when it ended, by the clock of ``time.perf_counter()``.
        self.iteration, self.ended = -1, 0.0
        #: Which of the steps of this process that was.
        self.number = 0


class LiveHealth:
    """The monitors of this process, one for each loop."""

    def __init__(self, rules_file: str | None) -> None:
        self._rules_file = rules_file
        self._rules: Rules | None = None
        self._loops: dict[steps.Loop | None, _LiveLoop] = {}
        self._steps = 0
        self._calls = CallsOfSteps()
        self._lock = RLock()

    # -- what comes in, on the thread that records -----------------------------------------------------------------

    def logged(self, call: LogCall) -> None:
        """Take in a log call that has been recorded."""
        if call.iteration is None or not process_identity.current().leads_training:
            return
        with guard("health.logged"):
            self._feed(call, call.iteration)

    def _feed(self, call: LogCall, iteration: int) -> None:
        if not self._lock.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            followed = self._followed(steps.loop_in(call.context))
            followed.number = max(followed.number, self._steps)
            changes = followed.monitor.log(iteration, call.values, call.first)
            self._record_changes(followed.monitor, changes, call.context)
        finally:
            self._lock.release()

    def rows_recorded(self, step: steps.Step, body: Mapping[str, Any], iteration: int | None) -> None:
        """Take in the rows of rollouts that ended in ``step``."""
        if not process_identity.current().leads_training or not self._lock.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            self._followed(step.loop).rewards.add(body, iteration, step.iteration)
        finally:
            self._lock.release()

    def step_recorded(self, step: steps.Step, seconds: float, end_time: int) -> None:
        """Take in a step that has been recorded with all its phases."""
        if not process_identity.current().leads_training or not self._lock.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            followed = self._followed(step.loop)
            ended = step.started + seconds
            phases = _phases(step)
            follows = step.iteration == followed.iteration + 1 and ended > followed.ended
            period = ended - followed.ended if follows else seconds
            if follows:
                phases[BETWEEN] = max(period - seconds, 0.0)
            self._steps += 1
            followed.iteration, followed.ended, followed.number = step.iteration, ended, self._steps
            # What the program logs itself under the same key wins.
            rewards = {
                key: value
                for key, value in followed.rewards.end(step.iteration).items()
                if not scalars.sink.has_logged(key, step.iteration)
            }
            if REWARD in rewards:
                # Of a program that gives its rewards rollout by rollout, and logs none.
                scalars.sink.results.add(
                    step.iteration, {REWARD: rewards[REWARD]}, process_identity.current().algorithm
                )
            changes: list[StateChange] = []
            if UNSCORED in rewards and trajectory_shares.has_later_scores():
                # The share is known to readers only, once the later scores have joined their rows.
                del rewards[UNSCORED]
                changes += followed.monitor.withdraw(Code.UNSCORED)
            called = self._calls.values(step.called)
            changes += followed.monitor.log(step.iteration, {**rewards, **called})
            changes += followed.monitor.step(step.iteration, period, phases)
            self._record_changes(followed.monitor, changes, step.context, end_time)
        finally:
            self._lock.release()

    def _followed(self, loop: steps.Loop | None) -> _LiveLoop:
        if loop is None:
            # From a thread without the context of a loop: the one followed last. Guessed steps are counted otherwise.
            known = (other for other in reversed(self._loops) if other is None or not _is_guessed(other))
            loop = next(known, None)
        followed = self._loops.get(loop)
        if followed is None:
            if not self._loops:
                scope.observe(metrics.RL_HEALTH, self._observed)
                lifecycle.before_shutdown(self.finish)
            while len(self._loops) >= MAXIMUM_LOOPS:
                del self._loops[next(iter(self._loops))]
            name = loop.name or "" if loop is not None else ""
            followed = self._loops[loop] = _LiveLoop(Monitor(self._in_force(), name))
            followed.number = self._steps
        return followed

    def _in_force(self) -> Rules:
        if self._rules is None:
            self._rules, complaint = user_rules.load(self._rules_file)
            if complaint:
                instrumentor_status.report(STATUS, instrumentor_status.DEGRADED, "the rules file was refused")
                stderr.write_line(complaint)
        return self._rules

    # -- what goes out ---------------------------------------------------------------------------------------------

    def _record_changes(
        self, monitor: Monitor, changes: Iterable[StateChange], context: Context | None, timestamp: int | None = None
    ) -> None:
        for change in changes:
            if change.is_reported:
                got_worse = change.state > change.before and change.state >= State.WARNING
                scope.event(
                    events.RL_HEALTH_CHANGED,
                    severity=SeverityNumber.WARN if got_worse else SeverityNumber.INFO,
                    attributes=_attributes(change, monitor.loop),
                    context=context,
                    timestamp=timestamp,
                )

    def states(self) -> dict[str, State]:
        """Return the worst state of each rule over the loops that are at work."""
        worst: dict[str, State] = {}
        for followed in tuple(self._loops.values()):
            if followed.number >= self._steps - ACTIVE_STEPS:
                for code, state in followed.monitor.states().items():
                    worst[code] = max(state, worst.get(code, State.UNOBSERVED))
        return worst

    def _observed(self) -> Iterator[tuple[float, dict[str, Any]]]:
        for code, state in self.states().items():
            yield int(state), {attributes.RL_HEALTH_CODE: code}

    def finish(self) -> None:
        """Judge what has come since the last step, and record the final states."""
        # Values of a step that is open yet are recorded at its end.
        steps.finish()
        deferral.drain_all()
        if not self._lock.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            for followed in tuple(self._loops.values()):
                monitor = followed.monitor
                self._record_changes(monitor, monitor.judge(), None)
                scope.event(events.RL_HEALTH_FINAL, attributes=_final(monitor))
        finally:
            self._lock.release()

    def forked(self) -> None:
        """In a forked child: the loops are the parent's."""
        self._loops, self._steps, self._calls = {}, 0, CallsOfSteps()
        self._lock = RLock()


def note_calls(step: steps.Step) -> None:
    """Note what the process has called up to the end of ``step``: it is recorded later."""
    step.called = progress.call_totals()


def _is_guessed(loop: steps.Loop) -> bool:
    return loop.source == LoopSource.GUESSED


def _phases(step: steps.Step) -> dict[str, float]:
    """Seconds of each phase of the step."""
    phases = {PHASES[name]: seconds for name, seconds in step.totals().items() if name in PHASES}
    others = step.totals_of_kinds()
    kinds = OTHER_PHASES | GUESSED_PARTS if _is_guessed(step.loop) else OTHER_PHASES
    return phases | {kind: others[kind] for kind in others.keys() & kinds}


def _attributes(change: StateChange, loop: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        attributes.RL_HEALTH_CODE: change.code,
        attributes.RL_HEALTH_STATE: change.state.word,
        attributes.RL_HEALTH_PREVIOUS_STATE: change.before.word,
        attributes.RL_LOOP_ITERATION: change.iteration,
        attributes.RL_LOOP_NAME: loop or None,
    }
    if change.episode is not None:
        reading = change.episode.reading
        values |= {
            attributes.RL_HEALTH_ONSET_ITERATION: change.episode.onset,
            attributes.RL_HEALTH_METRIC: reading.metric,
            # Some limits are whole numbers.
            attributes.RL_HEALTH_VALUE: float(reading.value),
            attributes.RL_HEALTH_THRESHOLD: float(reading.threshold),
            attributes.RL_HEALTH_EVIDENCE: change.episode.evidence,
            attributes.RL_HEALTH_NEXT: list(change.next_steps),
        }
    return values


def _final(monitor: Monitor) -> dict[str, Any]:
    by_state: dict[State, list[str]] = {state: [] for state in State}
    for code, state in monitor.states().items():
        by_state[state].append(code)
    return {
        attributes.RL_HEALTH_CRITICAL: by_state[State.CRITICAL],
        attributes.RL_HEALTH_WARNING: by_state[State.WARNING],
        attributes.RL_HEALTH_HEALTHY: by_state[State.HEALTHY],
        attributes.RL_HEALTH_UNOBSERVED: by_state[State.UNOBSERVED],
        attributes.RL_LOOP_ITERATION: monitor.last,
        attributes.RL_LOOP_NAME: monitor.loop or None,
    }


#: The rules of this process, where they follow its steps.
_started: LiveHealth | None = None


def states() -> dict[str, State]:
    """Return the worst state of each rule in this process; empty before its first step."""
    return _started.states() if _started is not None else {}


def start() -> None:
    """Follow the steps of this process; called once, when the first one has opened."""
    global _started
    health = _started = LiveHealth(settings.current().health_rules)
    scalars.sink.listeners.add(health.logged)
    steps.contributors.add(note_calls)
    trajectories.listeners.add(health.rows_recorded)
    steps.listeners.add(health.step_recorded)
    lifecycle.after_fork_in_child(health.forked)
