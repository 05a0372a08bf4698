"""The methods of a sink, and what they are given. Times are in seconds or, as ``*_ns``, in ns since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What an object must have to be a sink.
METHODS = ("run_started", "step_ended", "run_ended", "status")


@dataclass(frozen=True)
class SinkStatus:
    """The state of a sink, as it reports it itself.

    Attributes:
        name: How it calls itself; :func:`otel_rl.sinks.status` lists it under the name that it was added with.
        enabled: False if it does nothing, by its own configuration.
        available: False if it cannot deliver at present.
        detail: In words, up to 1,024 characters: an address without secrets, or why it is not available.
    """

    name: str
    enabled: bool = True
    available: bool = True
    detail: str = ""


@dataclass(frozen=True)
class RunStarted:
    """The run, when its first step has begun.

    Attributes:
        run_id: ``OTEL_RL_RUN_ID``, or what otel-rl has chosen.
        attempt: Scheduler restarts, elastic restarts and resume number, as ``1.0.2``.
        trace_id: Trace of the run's span, 32 hexadecimal digits.
        parameters: What trainers and trackers were configured with so far, as ``source.name``. Secrets are removed, as
            in ``rl.run.configuration``; empty with ``OTEL_RL_ARGUMENTS=off``.
    """

    run_id: str | None
    attempt: str
    trace_id: str
    parameters: Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True)
class ProgramEvent:
    """One call of :func:`otel_rl.event` within the step.

    Attributes:
        name: As the program gave it.
        body: The same, as plain values.
        attributes: The same.
        time_ns: When it was called.
    """

    name: str
    body: Any
    attributes: Mapping[str, Any]
    time_ns: int


@dataclass(frozen=True)
class StepEnded:
    """A step that has ended on the leading rank.

    Attributes:
        iteration: Its number.
        loop: Name of its loop, if it has one.
        source: Who knows where it begins and ends: ``given`` (:func:`otel_rl.step`), ``known`` (a trainer), ``guessed``
            (the optimizer) or ``logged``.
        ended_ns: End of the step on this rank.
        seconds: Its duration.
        phases: Seconds by phase (``sample``, ``train``) and part of one (``backward``); ``data_wait`` may be before it.
        values: The latest number of each key that trainer, trackers and :func:`otel_rl.metric` have logged since the
            step before, and the means of rollouts that ended in the step (``reward``, ``rewards/NAME/mean``).
        reward: Mean reward of the step's samples; None if it has none.
        mean_reward: Mean of the finite ``reward`` of this loop's steps so far, from the first sink on.
        events: What the program gave by :func:`otel_rl.event`; the first 64.
        error: ``error.type`` of what ended it; None if it did not fail.
        completed: False if the process ended within it.
        trace_id: Trace of the step, 32 hexadecimal digits.
    """

    iteration: int
    loop: str | None
    source: str
    ended_ns: int
    seconds: float
    phases: Mapping[str, float]
    values: Mapping[str, float]
    reward: float | None
    mean_reward: float | None
    events: tuple[ProgramEvent, ...]
    error: str | None
    completed: bool
    trace_id: str


@dataclass(frozen=True)
class RunEnded:
    """The run, when this process ends in order.

    Attributes:
        run_id: As in :class:`RunStarted`.
        status: ``completed``, ``failed`` (an uncaught exception) or ``stopped`` (a signal).
        steps: Number of steps that were recorded from the first sink on.
        values: Last number of each logged key.
        best: Best number of each key of which it is known which way is better.
    """

    run_id: str | None
    status: str
    steps: int
    values: Mapping[str, float]
    best: Mapping[str, float]


class StepSink(Protocol):
    """What a program adds to get each step. Its methods are called on one thread, one after the other."""

    def run_started(self, run: RunStarted) -> None:
        """Take in the run; called once, before any step."""

    def step_ended(self, step: StepEnded) -> None:
        """Take in a step."""

    def run_ended(self, run: RunEnded) -> None:
        """Take in the end of the run; called once, within the two seconds that all sinks have at the exit."""

    def status(self) -> SinkStatus:
        """Return how it is; called after each of the other methods."""
