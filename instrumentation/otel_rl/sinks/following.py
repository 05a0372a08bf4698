"""Collects what belongs to a step where it is recorded, mostly on an I/O thread, and queues it for each sink.

Only the leading process hands out steps, as with the line of ``OTEL_RL_CONSOLE``. What is known before that is settled
waits.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from otel_rl.api import operations
from otel_rl.api.user_messages import say_once
from otel_rl.console import categories
from otel_rl.core import clock
from otel_rl.core.guard import guard
from otel_rl.health.reward_columns import RewardSteps
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.sinks.calls import SinkQueue, SinkThread
from otel_rl.sinks.protocol import METHODS, ProgramEvent, RunEnded, RunStarted, StepEnded
from otel_rl.telemetry import deferral, drops, lifecycle, run_span
from otel_rl.telemetry.attribute_values import plain, text
from otel_rl.trackers.write_back import figures
from otel_rl.training import configuration, scalars, steps, trajectories

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.sinks.protocol import StepSink
    from otel_rl.training.log_calls import LogCall

#: Most sinks at once, and most events of a step.
MAXIMUM_SINKS, MAXIMUM_EVENTS = 16, 64
#: Seconds that all sinks have at the exit, in all.
AT_EXIT = 2.0
_LONGEST_NAME = 64


@dataclass
class LoopSoFar:
    """What is known of a loop since its last step, and its rewards so far."""

    rewards: RewardSteps = field(default_factory=RewardSteps)
    values: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    rewarded: int = 0


class SinkFollower:
    """What waits for the end of its step, in this process."""

    def __init__(self) -> None:
        self.thread = SinkThread(_run, self._may_call)
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child: its sinks, like its steps, are the parent's."""
        self.thread.reset()
        self._loops: WeakKeyDictionary[steps.Loop, LoopSoFar] = WeakKeyDictionary()
        self._events: WeakKeyDictionary[steps.Step, list[ProgramEvent]] = WeakKeyDictionary()
        self._lock = RLock()
        self._steps = 0
        self._has_ended = False

    def follow(self) -> None:
        """Listen from now on; once, however often it is called."""
        scalars.sink.listeners.add(self.logged)
        trajectories.listeners.add(self.rows_recorded)
        steps.openers.add(self.step_opened)
        steps.listeners.add(self.step_recorded)
        operations.event_listeners.add(self.event_given)
        lifecycle.at_intervals(self.thread.wake)
        # Recorded every second, and not only before an export.
        deferral.is_prompt = True

    def _may_call(self) -> bool:
        has_begun = self._has_ended or (steps.last_iteration() is not None and process_identity.settled())
        return has_begun and process_identity.current().leads_training

    def _so_far(self, loop: steps.Loop) -> LoopSoFar:
        return self._loops.setdefault(loop, LoopSoFar())

    def step_opened(self, _: steps.Step) -> None:
        """Begin the sinks with the first step."""
        self.thread.wake()

    def logged(self, call: LogCall) -> None:
        """Take in a log call that has been recorded."""
        loop = steps.loop_in(call.context) or steps.where().loop
        if loop is not None:
            with self._lock:
                numbers = {key: value for key, value in call.values.items() if isinstance(value, int | float)}
                self._so_far(loop).values.update(numbers)

    def rows_recorded(self, step: steps.Step, body: Mapping[str, Any], iteration: int | None) -> None:
        """Take in the rows of rollouts that ended in ``step``."""
        with self._lock:
            self._so_far(step.loop).rewards.add(body, iteration, step.iteration)

    def event_given(self, name: str, body: Any, values: Mapping[str, Any] | None) -> None:
        """Take in an event of the program; called on its thread."""
        step = steps.where().step
        if step is None or not self.thread.queues:
            return
        events = self._events.setdefault(step, [])
        if len(events) >= MAXIMUM_EVENTS:
            drops.count(Signal.STEPS, "event_limit")
            return
        events.append(ProgramEvent(text(str(name)), plain(body), plain(dict(values or {})), clock.now()))

    def step_recorded(self, step: steps.Step, seconds: float, end_time: int) -> None:
        """Take in a step that has been recorded with all its phases."""
        leads = process_identity.current().leads_training or not process_identity.settled()
        if self._has_ended or not leads or not step.is_own:
            return
        with self._lock:
            self._steps += 1
            so_far = self._so_far(step.loop)
            values, so_far.values = {**so_far.rewards.end(step.iteration), **so_far.values}, {}
            reward = categories.mean_reward(values)
            if reward is not None and math.isfinite(reward):
                so_far.total += reward
                so_far.rewarded += 1
            phases = figures.phase_seconds(step)
            phases[Phase.DATA_WAIT] = phases.get(Phase.DATA_WAIT, 0.0) + step.waited
            ended = StepEnded(
                iteration=step.iteration,
                loop=step.loop.name,
                source=step.loop.source,
                ended_ns=end_time,
                seconds=seconds,
                phases=phases,
                values=values,
                reward=reward,
                mean_reward=so_far.total / so_far.rewarded if so_far.rewarded else None,
                events=tuple(self._events.pop(step, ())),
                error=step.error,
                completed=step.is_completed,
                trace_id=f"{step.trace_id:032x}",
            )
        self.thread.put(ended)

    def finish(self, longest: float | None) -> float:
        """Hand out the end of the run, in half of ``longest`` seconds at most; return what that adds to the end."""
        if self._has_ended or not self.thread.queues or not process_identity.current().leads_training:
            return 0.0
        began, self._has_ended = time.monotonic(), True
        results = scalars.sink.results.items()
        values = {key: result.last for key, result in results}
        best = {key: result.best for key, result in results if result.best is not None}
        run_id, status = process_identity.current().id, run_span.how_it_ended()
        self.thread.put(RunEnded(run_id, status, self._steps, values, best))
        self.thread.finish(AT_EXIT if longest is None else min(AT_EXIT, longest / 2))
        return time.monotonic() - began if longest is None else 0.0


def _run() -> RunStarted:
    who, trace = process_identity.current(), f"{run_span.link().context.trace_id:032x}"
    return RunStarted(who.id, who.attempt, trace, configuration.known())


follower = SinkFollower()
lifecycle.after_fork_in_child(follower.forget)


def add(sink: StepSink, name: str | None = None) -> str | None:
    """Hand each step that is recorded from now on to ``sink``, and before that the run.

    Args:
        sink: An object with the methods of :class:`~otel_rl.sinks.Sink`.
        name: Its name, up to 64 characters; by default that of its class.

    Returns:
        Its name; None, and a line on standard error, if the name is taken or there are 16 sinks already.

    Raises:
        TypeError: for an object that lacks a method, and for a class (also with telemetry off).
    """
    missing = [method for method in METHODS if not callable(getattr(sink, method, None))]
    if missing or isinstance(sink, type):
        lacks = f"it lacks {', '.join(missing)}" if missing else "it is a class; give an object of it"
        raise TypeError(f"otel_rl.sinks.add: {text(repr(sink), _LONGEST_NAME)} is no sink: {lacks}")
    queues = follower.thread.queues
    with guard("sinks.add"):
        wanted = text(str(name or type(sink).__name__), _LONGEST_NAME)
        if wanted in queues or len(queues) >= MAXIMUM_SINKS:
            problem = f'a sink has the name "{wanted}"' if wanted in queues else f"there are {MAXIMUM_SINKS} sinks"
            say_once("sinks.add", f"sinks.add: {problem} already, and this one gets nothing: remove one first")
            return None
        queues[wanted] = SinkQueue(wanted, sink)
        follower.follow()
        follower.thread.wake()
        return wanted
    return None


def remove(name: str) -> StepSink | None:
    """Hand no more steps to the sink of this ``name``, and return it; what waits for it is dropped and counted.

    Where there is none that is a line on standard error.
    """
    queue = follower.thread.queues.pop(str(name), None)
    if queue is None:
        known = ", ".join(follower.thread.queues) or "none"
        say_once(
            "sinks.remove", f'sinks.remove: there is no sink "{text(str(name), _LONGEST_NAME)}"; there are: {known}'
        )
        return None
    queue.give_up()
    return queue.sink


def get(name: str) -> StepSink | None:
    """Return the sink of this ``name``; None if there is none."""
    queue = follower.thread.queues.get(str(name))
    return None if queue is None else queue.sink
