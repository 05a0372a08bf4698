"""The timer: its blocks begin where it sets the attribute ``start_time``, and end where it reads it last.

At the end it reads it for its log, and once more where it keeps the time, which has that of the log in it.

It logs with loguru's ``opt(depth=1)`` who has called it (``Timer`` in ``skyrl/train/utils/utils.py`` of 0.4.0): a
wrapper of its methods would be named there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from otel_rl.core.guard import guard
from otel_rl.training import timed_loop

if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.training.phases import PhaseHandle
    from otel_rl.training.timed_loop import TimedLoop

_START = "start_time"
_BEGIN, _END = guard("skyrl.timer.begin"), guard("skyrl.timer.end")
#: What the blocks of the timer have begun.
_open: WeakKeyDictionary[Any, TimedLoop | PhaseHandle] = WeakKeyDictionary()
#: Timers that have logged the end of their blocks and are about to keep their time.
_logged: WeakSet[Any] = WeakSet()


class _StartTime:
    """The attribute, which stays in the dictionary of the timer."""

    def __init__(self, begin: frozenset[CodeType], end: frozenset[CodeType]) -> None:
        self._begin, self._end = begin, end

    def __get__(self, timer: Any, kind: type | None = None) -> Any:
        if timer is None:
            return self
        if _START not in vars(timer):
            raise AttributeError(f"{type(timer).__name__!r} object has no attribute {_START!r}")
        with _END:
            frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to see the caller
            if frame.f_code in self._end:
                _ended(timer, frame)
        return vars(timer)[_START]

    def __set__(self, timer: Any, value: Any) -> None:
        vars(timer)[_START] = value
        with _BEGIN:
            if sys._getframe(1).f_code in self._begin:  # noqa: SLF001 - as above
                _begins(timer)


def patch_timer(module: ModuleType, patches: Patches) -> None:
    """Follow the timer in both kinds of ``with``."""
    kind = module.Timer
    begin = _code_of(kind, "__enter__", "__aenter__")
    end = _code_of(kind, "__exit__", "__aexit__")
    if not begin or not end:
        patches.observe(module, f"Timer.{_START}", required=True)
        return
    setattr(kind, _START, _StartTime(begin, end))
    patches.on_restore(lambda: delattr(kind, _START))


def _code_of(kind: type, *methods: str) -> frozenset[CodeType]:
    """Return the code of those methods that use the attribute."""
    found = [getattr(vars(kind).get(method), "__code__", None) for method in methods]
    return frozenset(code for code in found if code is not None and _START in code.co_names)


def _begins(timer: Any) -> None:
    loop = timed_loop.running()
    opened = None if loop is None else loop.part_begins(timer.message)
    if opened is not None:
        _open[timer] = opened


def _ended(timer: Any, frame: FrameType) -> None:
    if timer.update_dict is not None and timer not in _logged:
        _logged.add(timer)
        return
    _logged.discard(timer)
    opened = _open.pop(timer, None)
    if opened is not None:
        # ``__exit__(self, exc_type, exc_val, exc_tb)``
        error = frame.f_locals.get(frame.f_code.co_varnames[2])
        timed_loop.part_ended(opened, None, error)
