"""Blocks of the event loops of asyncio programs, by the function that blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log, Process

#: Of processes with an event loop that was watched.
METRICS = (metrics.RL_EVENT_LOOP_LAG,)
#: One waits where two are open: the other one blocks.
_TWO = 2
_ROLLOUTS = names.RL_EVENT_LOOP_ROLLOUTS


@dataclass(slots=True)
class BlockingFunction:
    """Blocks by one function; ``line`` is that of the longest one."""

    function: str
    file: str
    line: int = 0
    state: str = ""
    number: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    #: Most rollouts and model calls that were open in one of them.
    rollouts: int = 0
    model_calls: int = 0
    #: Seconds for which others waited, and the same summed up over the rollouts that did.
    waited: float = 0.0
    rollout_seconds: float = 0.0
    #: Blocks in which others waited.
    stretches: int = 0
    steps: set[int] = field(default_factory=set)
    who: set[str] = field(default_factory=set)

    @property
    def place(self) -> str:
        """``tools.search (tools.py:41)``."""
        name = self.file.rpartition("/")[2]
        return f"{self.function} ({name}:{self.line})" if name else self.function

    def add(self, log: Log) -> None:
        """Count the block that an event reports."""
        get, seconds = log.attributes.get, _value(log, names.RL_EVENT_LOOP_BLOCKED_DURATION)
        rollouts, calls = (int(_value(log, name)) for name in (_ROLLOUTS, names.RL_EVENT_LOOP_MODEL_CALLS))
        self.number += 1
        self.seconds += seconds
        if seconds > self.longest:
            self.longest, self.state = seconds, str(get(names.RL_EVENT_LOOP_BLOCKED_STATE) or "")
            self.line = int(_value(log, names.CODE_LINE_NUMBER))
        self.rollouts, self.model_calls = max(self.rollouts, rollouts), max(self.model_calls, calls)
        if max(rollouts, calls) >= _TWO:
            self.stretches += 1
            self.waited += seconds
            self.rollout_seconds += seconds * max(rollouts - 1, 0)
        if (step := int_or_none(get(names.RL_LOOP_ITERATION))) is not None:
            self.steps.add(step)
        self.who.add(log.process.label)


@asked_once
def functions(collected: Collected) -> list[BlockingFunction]:
    """Return the functions that blocked, the one that blocked longest first."""
    found: dict[tuple[str, str], BlockingFunction] = {}
    for log in _each_once(collected):
        get = log.attributes.get
        key = str(get(names.CODE_FUNCTION_NAME) or "unknown code"), str(get(names.CODE_FILE_PATH) or "")
        found.setdefault(key, BlockingFunction(*key)).add(log)
    return sorted(found.values(), key=lambda function: -function.seconds)


def without_event(collected: Collected) -> tuple[int, float]:
    """Return number and seconds of blocks that have no event."""
    totals: dict[Process, tuple[float, float]] = {}
    for log in _each_once(collected):
        own = _value(log, names.RL_EVENT_LOOP_BLOCKED_NUMBER), _value(log, names.RL_EVENT_LOOP_BLOCKED_TOTAL)
        number, seconds = totals.get(log.process, own)
        totals[log.process] = max(number, own[0]), max(seconds, own[1])
    left = sum(number for number, _ in totals.values()) - sum(function.number for function in functions(collected))
    seconds = sum(spent for _, spent in totals.values()) - sum(function.seconds for function in functions(collected))
    return (int(left), max(seconds, 0.0)) if left > 0 else (0, 0.0)


def _each_once(collected: Collected) -> Iterator[Log]:
    """Yield the last record of each block: that of its end, if it has ended."""
    lasting: dict[tuple[Process, float], Log] = {}
    for log in collected.tables.events(events.RL_EVENT_LOOP_BLOCKED.name):
        block = log.process, _value(log, names.RL_EVENT_LOOP_BLOCKED_NUMBER)
        lasting.pop(block, None)
        if log.attributes.get(names.RL_EVENT_LOOP_BLOCKED_ONGOING):
            lasting[block] = log
        else:
            yield log
    yield from lasting.values()


def _value(log: Log, name: str) -> float:
    value = log.attributes.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
