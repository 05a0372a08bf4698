"""Blocks of the event loops of asyncio programs, by the function that blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics

if TYPE_CHECKING:
    from otel_rl.store.reader import Log

#: Of processes with an event loop that was watched.
METRICS = (metrics.RL_EVENT_LOOP_LAG,)
_FUNCTIONS = 200
#: Blocks that last, in all processes, whose end has not been read yet.
_ONGOING = 1000
#: One waits where two are open: the other one blocks.
_TWO = 2


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


class EventLoopBlocks:
    """Aggregates the events of blocks, in bounded memory."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], BlockingFunction] = {}
        self._ongoing: dict[tuple[str, int], Log] = {}
        #: Number and seconds of all blocks by process, those without an event too.
        self._totals: dict[str, tuple[int, float]] = {}

    def add_log(self, log: Log) -> None:
        """Take in the event of a block; others are ignored."""
        if log.event != events.RL_EVENT_LOOP_BLOCKED.name:
            return
        key = (log.process.key, int(_float_or_zero(log.attributes.get(names.RL_EVENT_LOOP_BLOCKED_NUMBER))))
        number, seconds = self._totals.get(key[0], (0, 0.0))
        total = _float_or_zero(log.attributes.get(names.RL_EVENT_LOOP_BLOCKED_TOTAL))
        self._totals[key[0]] = max(number, key[1]), max(seconds, total)
        self._ongoing.pop(key, None)
        if not log.attributes.get(names.RL_EVENT_LOOP_BLOCKED_ONGOING):
            self._count(log)
        elif len(self._ongoing) < _ONGOING:
            self._ongoing[key] = log

    def close(self) -> None:
        """Count the blocks that still last: all records have been read."""
        while self._ongoing:
            self._count(self._ongoing.popitem()[1])

    def _count(self, log: Log) -> None:
        get = log.attributes.get
        key = str(get(names.CODE_FUNCTION_NAME) or "unknown code"), str(get(names.CODE_FILE_PATH) or "")
        if key not in self._functions and len(self._functions) >= _FUNCTIONS:
            return
        function = self._functions.setdefault(key, BlockingFunction(*key))
        seconds = _float_or_zero(get(names.RL_EVENT_LOOP_BLOCKED_DURATION))
        rollouts, calls = (int(_float_or_zero(get(name))) for name in (_ROLLOUTS, names.RL_EVENT_LOOP_MODEL_CALLS))
        function.number += 1
        function.seconds += seconds
        if seconds > function.longest:
            function.longest, function.state = seconds, str(get(names.RL_EVENT_LOOP_BLOCKED_STATE) or "")
            function.line = int(_float_or_zero(get(names.CODE_LINE_NUMBER)))
        function.rollouts, function.model_calls = max(function.rollouts, rollouts), max(function.model_calls, calls)
        if max(rollouts, calls) >= _TWO:
            function.stretches += 1
            function.waited += seconds
            function.rollout_seconds += seconds * max(rollouts - 1, 0)
        iteration = get(names.RL_LOOP_ITERATION)
        if isinstance(iteration, int):
            function.steps.add(iteration)
        function.who.add(log.process.label)

    def functions(self) -> list[BlockingFunction]:
        """Return the functions that blocked, the one that blocked longest first."""
        return sorted(self._functions.values(), key=lambda function: -function.seconds)

    @property
    def without_event(self) -> tuple[int, float]:
        """Number and seconds of blocks that have no event."""
        functions = self._functions.values()
        number = sum(blocks for blocks, _ in self._totals.values()) - sum(function.number for function in functions)
        seconds = sum(spent for _, spent in self._totals.values()) - sum(function.seconds for function in functions)
        return max(number, 0), max(seconds, 0.0) if number > 0 else 0.0


_ROLLOUTS = names.RL_EVENT_LOOP_ROLLOUTS


def _float_or_zero(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
