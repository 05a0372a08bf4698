"""Log calls of trainers with the values that health rules read: the values of steps are in no table yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import settings
from otel_rl.health import user_rules
from otel_rl.health.curves import Curves
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader import Log, Process


class JudgedLoop(NamedTuple):
    """A loop of a process; guessed steps are counted otherwise than what the program logs."""

    process: Process
    loop: str
    is_guessed: int


class LoggedValues(NamedTuple):
    """A log call at step ``last``; it covers the steps from ``first`` on."""

    time: int
    last: int
    first: int | None
    values: dict[str, float]


class LogCalls:
    """Collects them."""

    def __init__(self) -> None:
        named = settings.current().health_rules
        self._curves = Curves(user_rules.load(None if named == "off" else named)[0].keys)
        self._calls: dict[JudgedLoop, list[LoggedValues]] = {}

    @property
    def places(self) -> set[JudgedLoop]:
        """Where something was logged."""
        return set(self._calls)

    def of(self, place: JudgedLoop) -> list[LoggedValues]:
        """Return those of a loop, the earliest first."""
        return sorted(self._calls.get(place, ()), key=lambda call: call.time)

    def add_log(self, log: Log) -> None:
        """Take in a log call of a step; other records are ignored."""
        get = log.attributes.get
        last = int_or_none(get(names.RL_LOOP_ITERATION))
        if log.event != events.RL_STEP.name or last is None or not isinstance(log.body, dict):
            return
        values = {key: number for key, number, _ in self._curves.known(log.body)}
        is_guessed = int(get(names.RL_LOOP_SOURCE) == LoopSource.GUESSED)
        place = JudgedLoop(log.process, str(get(names.RL_LOOP_NAME) or ""), is_guessed)
        self._calls.setdefault(place, []).append(
            LoggedValues(log.time, last, int_or_none(get(names.RL_STEP_FIRST)), values)
        )
