"""Where code is: in which function, and whose file that is: the program's, a library's, or Python's own.

Source lines are left out: they would be read from files.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

_LONGEST_PATH = 200
_MOST_FILES = 4096
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
#: Whose code a file is: that of the standard library, of another library, of the program.
_STANDARD, _LIBRARY, PROGRAM = range(3)
_FOLDERS = {Path(os.__file__).parent, *map(Path, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")))}
_STANDARD_LIBRARIES = tuple(f"{path}{os.sep}" for folder in _FOLDERS for path in (folder, folder.resolve()))
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: Our own code is no program either, where it is installed from a checkout.
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
#: What :func:`rank_of` has found, for those who ask very often.
known_ranks: dict[str, int] = {}


class RunningFunction(NamedTuple):
    """A function that runs."""

    function: str
    file: str
    line: int


#: Code of our callbacks of the garbage collector: a thread that collects is seen there.
garbage_callbacks: set[CodeType] = set()
#: What a thread is at whose innermost frame is that of our callback of the garbage collector.
GARBAGE_COLLECTION = RunningFunction("garbage collection", "", 0)


def innermost_of_program(frames: Iterable[FrameType]) -> FrameType | None:
    """Return the innermost frame of the program, else of a library, else of the standard library.

    ``frames`` come from the innermost one outwards; None where there is none.
    """
    best, best_rank = None, -1
    for number, frame in enumerate(frames):
        # A comprehension is part of its function; it has a frame of its own up to Python 3.11.
        rank = rank_of(frame.f_code.co_filename) if frame.f_code.co_name not in _COMPREHENSIONS else -1
        if rank > best_rank or not number:
            best, best_rank = frame, rank
        if best_rank == PROGRAM:
            break
    return best


def place(frame: FrameType) -> RunningFunction:
    """Name what runs in ``frame``."""
    code = frame.f_code
    module = frame.f_globals.get("__name__")
    name = qualified_name(code)
    prefix = f"{module}." if isinstance(module, str) and module != "__main__" else ""
    return RunningFunction(f"{prefix}{name}"[:_LONGEST_PATH], code.co_filename[-_LONGEST_PATH:], frame.f_lineno or 0)


def line(frame: FrameType) -> str:
    """Return the line of a traceback that says where ``frame`` is."""
    code = frame.f_code
    return f'  File "{code.co_filename[-_LONGEST_PATH:]}", line {frame.f_lineno}, in {code.co_name[:_LONGEST_PATH]}'


def qualified_name(code: CodeType) -> str:
    """With the class of a method from Python 3.11 on."""
    return str(getattr(code, "co_qualname", code.co_name))


def rank_of(file: str) -> int:
    """Return whose code a file is; the program's is the highest."""
    rank = known_ranks.get(file)
    if rank is None:
        if len(known_ranks) >= _MOST_FILES:
            known_ranks.clear()
        rank = known_ranks[file] = _owner(file)
    return rank


def _owner(file: str) -> int:
    if any(part in file for part in _LIBRARIES) or file.startswith(_OURS):
        return _LIBRARY
    return _STANDARD if file.startswith(("<frozen ", *_STANDARD_LIBRARIES)) else PROGRAM
