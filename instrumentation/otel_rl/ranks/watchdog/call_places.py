"""In which function of the program a call waits: in the thread, or the task of asyncio, that has begun it."""

from __future__ import annotations

import sys
import threading
from _thread import _local
from typing import TYPE_CHECKING, Any

from otel_rl.core import code_places
from otel_rl.ranks.watchdog import get_ident

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from otel_rl.core.code_places import RunningFunction
    from otel_rl.telemetry.progress import CallBegin

#: Most frames of a stack that are looked at.
_DEPTH = 2000
#: Most frames that a call looks at when it begins: the outermost ones.
_SIGNED_DEPTH = 32
#: Where the outermost frame of the thread was.
_remembered = _local()
#: Stands for a function of the program where the thread had none, as a pool's that runs a method of a client.
_NO_PROGRAM = 1
#: Most tasks that wait for each other, as those in which LangChain runs tools.
_TASKS = 16
#: Frame and next one of coroutines, generators, asynchronous generators.
_KINDS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


def sign() -> int:
    """Return a number that identifies the program's outermost frame in this thread; 0: none is needed or found.

    While that frame runs, the thread still does the work that began the call. It is no reference, which would keep all
    that the function holds; the id of its code is in it, as ids of frames are used again.
    """
    if get_ident() == threading.main_thread().ident:
        # It does one thing only, and who waits there need not pay for this.
        return 0
    known, place = code_places.known_ranks, _outermost_place()
    last = max(place - _SIGNED_DEPTH, 1)
    while place > last:
        frame = sys._getframe(place)  # noqa: SLF001
        file = frame.f_code.co_filename
        # One look-up for most: this is on the way of each call.
        rank = known.get(file)
        if (code_places.rank_of(file) if rank is None else rank) == code_places.PROGRAM:
            return _known_by(frame)
        place -= 1
    return 0 if last > 1 else _NO_PROGRAM


def _outermost_place() -> int:
    """Return the place of this thread's outermost frame, counted from the frame that calls this.

    It is looked for by halves, and remembered: on a walk from frame to frame each gets an object, which takes longer.
    """
    place = getattr(_remembered, "place", 0)
    try:
        sys._getframe(place)  # noqa: SLF001
    except ValueError:
        place = 0
    try:
        sys._getframe(place + 1)  # noqa: SLF001
    except ValueError:
        return place - 1
    there, beyond = 0, _SIGNED_DEPTH
    while beyond - there > 1:
        middle = (there + beyond) // 2
        try:
            sys._getframe(middle)  # noqa: SLF001
        except ValueError:
            beyond = middle
        else:
            there, beyond = middle, 4 * middle if middle == beyond - 1 else beyond
    _remembered.place = there
    return there - 1


def _known_by(frame: FrameType) -> int:
    return id(frame) ^ id(frame.f_code) << 1


def _threads_are_greenlets() -> bool:
    """Return True where gevent has patched ``threading``: the stack of a thread is that of any greenlet."""
    is_patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    return is_patched is not None and bool(is_patched("threading"))


def find_place(begin: CallBegin, threads: Mapping[int, FrameType] | None = None) -> RunningFunction | None:
    """Return the innermost function of the program there; None where none is seen, or that of other work.

    ``threads`` are the frames of all threads, for who asks of many calls; else they are looked up.
    """
    if _threads_are_greenlets():
        return None
    task = begin.task() if begin.task is not None else None
    if begin.task is not None and (task is None or task.done()):
        return None
    frames = list(_of_thread(begin.thread, threads)) if task is None or _runs(task) else _of_task(task)
    if task is None and begin.frame and all(_known_by(frame) != begin.frame for frame in frames):
        return None
    frame = code_places.innermost_of_program(frames)
    if frame is None or code_places.rank_of(frame.f_code.co_filename) != code_places.PROGRAM:
        return None
    return code_places.place(frame)


def _runs(task: Any) -> bool:
    coroutine = task.get_coro()
    return bool(getattr(coroutine, "cr_running", False) or getattr(coroutine, "gi_running", False))


def current_frames() -> Mapping[int, FrameType]:
    """Return the frames of all threads, as faulthandler sees them."""
    return sys._current_frames()  # noqa: SLF001


def _of_thread(thread: int, threads: Mapping[int, FrameType] | None) -> Iterator[FrameType]:
    frame = (current_frames() if threads is None else threads).get(thread)
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _of_task(task: Any) -> list[FrameType]:
    """Return the frames of a task that waits, the innermost first; of the task that it waits for, too."""
    frames: list[FrameType] = []
    followed = 0
    while task is not None and followed < _TASKS:
        frames += _of_coroutine(task.get_coro())
        waits_for = getattr(task, "_fut_waiter", None)
        task, followed = waits_for if hasattr(waits_for, "get_coro") else None, followed + 1
    return frames[::-1]


def _of_coroutine(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine, the outermost first."""
    for _ in range(_DEPTH):
        kind = next((kind for kind in _KINDS if hasattr(waiting, kind[0])), None)
        if kind is None:
            # A future, or what code in C waits for.
            return
        frame = getattr(waiting, kind[0])
        if frame is not None:
            yield frame
        waiting = getattr(waiting, kind[1])
