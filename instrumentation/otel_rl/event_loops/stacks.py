"""Where the thread of an event loop is: in which call of the loop, and in which function of the program.

Source lines are left out: they would be read from files.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.event_loops.ping import RUN

if TYPE_CHECKING:
    from types import CodeType, FrameType

#: Most frames of a stack that are looked at.
MAXIMUM_DEPTH = 2000
#: Most frames that are written, the innermost ones.
MAXIMUM_FRAMES = 40
_LONGEST_PATH = 200
#: Where asyncio waits for something to do, also where a program has put another method in its place.
_TURN = "_run_once"
_MOST_FILES = 4096
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class RunningCall(NamedTuple):
    """A call that a loop makes: its outermost frame, and the innermost one that runs."""

    outermost: FrameType
    innermost: FrameType
    #: Where the loop ends and the call begins has been seen. Otherwise the loop may wait as well.
    is_certain: bool = True


class RunningFunction(NamedTuple):
    """A function that runs."""

    function: str
    file: str
    line: int


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
    best, best_rank, frame, looked_at = call.innermost, -1, call.innermost, 0
    while looked_at < MAXIMUM_DEPTH:
        # A comprehension is part of its function; it has a frame of its own up to Python 3.11.
        rank = _rank(frame.f_code.co_filename) if frame.f_code.co_name not in _COMPREHENSIONS else -1
        if rank > best_rank:
            best, best_rank = frame, rank
        outer = frame.f_back
        if best_rank == _PROGRAM or frame is call.outermost or outer is None:
            break
        frame, looked_at = outer, looked_at + 1
    return best


def place(frame: FrameType) -> RunningFunction:
    """Name what runs in ``frame``."""
    code = frame.f_code
    module = frame.f_globals.get("__name__")
    name = qualified_name(code)
    prefix = f"{module}." if isinstance(module, str) and module != "__main__" else ""
    return RunningFunction(f"{prefix}{name}"[:_LONGEST_PATH], code.co_filename[-_LONGEST_PATH:], frame.f_lineno or 0)


def qualified_name(code: CodeType) -> str:
    """With the class of a method from Python 3.11 on."""
    return str(getattr(code, "co_qualname", code.co_name))


def as_text(call: RunningCall) -> str:
    """Return the stack of the call, outermost frame first as in a traceback."""
    lines: list[str] = []
    frame: FrameType | None = call.innermost
    while frame is not None and len(lines) <= MAXIMUM_FRAMES:
        if frame.f_code is not RUN:
            lines.append(_line(frame))
        frame = None if frame is call.outermost else frame.f_back
    left_out = ["  (further outer frames)"] if len(lines) > MAXIMUM_FRAMES else []
    return "\n".join([*left_out, *reversed(lines[:MAXIMUM_FRAMES])])


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f'  File "{code.co_filename[-_LONGEST_PATH:]}", line {frame.f_lineno}, in {code.co_name[:_LONGEST_PATH]}'


#: Whose code a file is: that of the standard library, of another library, of the program.
_STANDARD = 0
_LIBRARY = 1
_PROGRAM = 2
_FOLDERS = {Path(os.__file__).parent, *map(Path, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")))}
_STANDARD_LIBRARIES = tuple(f"{path}{os.sep}" for folder in _FOLDERS for path in (folder, folder.resolve()))
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: Our own code is no program either, where it is installed from a checkout.
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_ranks: dict[str, int] = {}


def _rank(file: str) -> int:
    rank = _ranks.get(file)
    if rank is None:
        if len(_ranks) >= _MOST_FILES:
            _ranks.clear()
        rank = _ranks[file] = _rank_of(file)
    return rank


def _rank_of(file: str) -> int:
    if any(part in file for part in _LIBRARIES) or file.startswith(_OURS):
        return _LIBRARY
    return _STANDARD if file.startswith(("<frozen ", *_STANDARD_LIBRARIES)) else _PROGRAM
