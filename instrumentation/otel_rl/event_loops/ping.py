"""The call that an event loop is asked to make while it is at work: it shows that the loop has come round."""

from __future__ import annotations

import sys
from asyncio.events import Handle
from contextvars import Context
from typing import TYPE_CHECKING, Any

from otel_rl.event_loops import monotonic

if TYPE_CHECKING:
    from types import FrameType

#: In the loops of asyncio every call comes from here; others, such as uvloop's, call from C.
RUN = Handle._run.__code__  # noqa: SLF001 - there is no public name for where a callback begins
#: Most stack frames that one ping keeps.
_MAXIMUM_FRAMES = 64


class Ping:
    """One call; of loops that call in turn, as asyncio's and uvloop's do, it comes after all that was due before it."""

    __slots__ = ("_kept", "answered", "sent", "under")

    def __init__(self) -> None:
        self.sent = monotonic()
        #: When the loop made the call.
        self.answered: float | None = None
        #: id of the frame that runs the loop, where that is written in C.
        self.under = 0
        self._kept: list[FrameType] = []

    def send(self, loop: Any) -> None:
        """Ask ``loop``; raises where it is closed. The context is an empty one: a copy of ours would be made."""
        loop.call_soon_threadsafe(self, context=Context())

    def keep(self, frame: FrameType) -> bool:
        """Keep ``frame``, so that no other one gets its id; the loop's thread frees it, with all that it holds."""
        if len(self._kept) < _MAXIMUM_FRAMES:
            self._kept.append(frame)
            return True
        return False

    def __call__(self) -> None:
        """Note that the loop has come round; in its thread."""
        caller = sys._getframe().f_back  # noqa: SLF001 - the loop
        if caller is not None and caller.f_code is not RUN:
            self.under = id(caller)
        self._kept.clear()
        self.answered = monotonic()
