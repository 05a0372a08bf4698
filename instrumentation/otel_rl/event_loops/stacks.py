"""Where the thread of an event loop is: in which call of the loop, and in which function of the program.

Source lines are left out: they would be read from files.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import code_places
from otel_rl.event_loops.ping import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: Most frames of a stack that are looked at.
MAXIMUM_DEPTH = 2000
#: Most frames that are written, the innermost ones.
MAXIMUM_FRAMES = 40
#: Where asyncio waits for something to do, also where a program has put another method in its place.
_TURN = "_run_once"


class RunningCall(NamedTuple):
    """A call that a loop makes: its outermost frame, and the innermost one that runs."""

    outermost: FrameType
    innermost: FrameType
    #: Where the loop ends and the call begins has been seen. Otherwise the loop may wait as well.
    is_certain: bool = True


def call_of(thread: int, under: int) -> RunningCall | None:
    """Return the call that the loop of ``thread`` makes now; None where it waits.

    ``under`` is the id of the frame that runs the loop, where the loop is written in C.
    """
    innermost = sys._current_frames().get(thread)  # noqa: SLF001 - as faulthandler sees them
    frame, inner, looked_at = innermost, innermost, 0
    while frame is not None and inner is not None and innermost is not None and looked_at < MAXIMUM_DEPTH:
        code = frame.f_code
        if code is RUN:
            return RunningCall(frame, innermost)
        if code.co_name == _TURN:
            return None
        if id(frame) == under:
            return None if frame is innermost else RunningCall(inner, innermost)
        inner, frame, looked_at = frame, frame.f_back, looked_at + 1
    return None if inner is None or innermost is None else RunningCall(inner, innermost, is_certain=False)


def program_frame(call: RunningCall) -> FrameType:
    """Return the innermost frame of the program, else of a library, else of the standard library."""
    return code_places.innermost_of_program(_frames(call)) or call.innermost


def _frames(call: RunningCall) -> Iterator[FrameType]:
    frame: FrameType | None = call.innermost
    for _ in range(MAXIMUM_DEPTH):
        if frame is None:
            return
        yield frame
        frame = None if frame is call.outermost else frame.f_back


def as_text(call: RunningCall) -> str:
    """Return the stack of the call, outermost frame first as in a traceback."""
    lines: list[str] = []
    frame: FrameType | None = call.innermost
    while frame is not None and len(lines) <= MAXIMUM_FRAMES:
        if frame.f_code is not RUN:
            lines.append(code_places.line(frame))
        frame = None if frame is call.outermost else frame.f_back
    left_out = ["  (further outer frames)"] if len(lines) > MAXIMUM_FRAMES else []
    return "\n".join([*left_out, *reversed(lines[:MAXIMUM_FRAMES])])
