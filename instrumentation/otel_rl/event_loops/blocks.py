"""What is known of one stretch of code that runs in an event loop without giving it back."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import code_places
from otel_rl.event_loops import stacks
from otel_rl.semconv.attributes import RlEventLoopBlockedStateValues as State

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from otel_rl.core.code_places import RunningFunction
    from otel_rl.event_loops.ping import Ping
    from otel_rl.event_loops.stacks import RunningCall
    from otel_rl.event_loops.thread_time import ThreadInterval

#: Most functions of the program that are distinguished in one block.
_MAXIMUM_FUNCTIONS = 16


class EventLoopBlock(NamedTuple):
    """A block as it is reported."""

    seconds: float
    state: str
    place: RunningFunction | None
    stack: str
    task: str | None
    coroutine: str | None
    rollouts: int
    model_calls: int


class Running:
    """One call of an event loop that has been seen at work, as long as the loop has not come round.

    A call is the same as at the look before when the task is: until a loop has answered a ping, it makes at most one
    step of each task. Other calls are distinguished by their frame, which the ping keeps.
    """

    def __init__(self, task: Any, call: RunningCall, ping: Ping) -> None:
        self._task = weakref.ref(task) if task is not None else None
        has_frame = task is None and call.is_certain and ping.keep(call.outermost)
        self._frame = id(call.outermost) if has_frame else 0
        self._names = _names(task)
        self.seconds = self._computed = 0.0
        #: How often each function of the program was seen, and where it was seen first.
        self._seen: dict[CodeType, int] = {}
        self._places: dict[CodeType, tuple[RunningFunction, str]] = {}
        #: Rollouts and model calls that were open when it had taken long.
        self.waiting: tuple[int, int] | None = None
        #: Number of the event that reported it while it ran; 0 before that.
        self.reported_as = 0

    @property
    def is_confirmed(self) -> bool:
        """Whether it was seen twice, or filled a whole stretch."""
        return bool(self._seen)

    def is_same(self, task: Any, call: RunningCall) -> bool:
        """Return whether the loop still makes this call."""
        if self._task is not None or task is not None:
            return task is not None and self._task is not None and self._task() is task
        return self._frame == id(call.outermost)

    def add(self, seconds: float, stretch: ThreadInterval) -> None:
        """Add ``seconds`` of the stretch, in which it ran."""
        self.seconds += max(seconds, 0.0)
        self._computed += min(stretch.computed, max(seconds, 0.0))

    def see(self, call: RunningCall) -> None:
        """Take note of where it is."""
        frame: FrameType = stacks.program_frame(call)
        is_garbage = call.innermost.f_code in code_places.garbage_callbacks
        code = call.innermost.f_code if is_garbage else frame.f_code
        if code not in self._places:
            if len(self._places) >= _MAXIMUM_FUNCTIONS:
                return
            place = code_places.GARBAGE_COLLECTION if is_garbage else code_places.place(frame)
            self._places[code] = place, stacks.as_text(call)
        self._seen[code] = self._seen.get(code, 0) + 1

    def block(self) -> EventLoopBlock:
        """Return the block to report; of several functions with the one that was seen most often."""
        code = max(self._seen, key=self._seen.__getitem__, default=None)
        place, stack = self._places[code] if code is not None else (None, "")
        state = State.COMPUTES if 2 * self._computed >= self.seconds else State.WAITS
        return EventLoopBlock(self.seconds, state, place, stack, *self._names, *(self.waiting or (0, 0)))


def _names(task: Any) -> tuple[str | None, str | None]:
    if not isinstance(task, asyncio.Task):
        return None, None
    coroutine: Any = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return task.get_name(), code_places.qualified_name(code) if code is not None else None
