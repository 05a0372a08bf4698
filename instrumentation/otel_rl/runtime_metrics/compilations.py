"""What ``torch.compile`` compiled: how long it took, and why it recompiled.

PyTorch keeps a record of its latest compilations, which is read at the end of a step and at an export. Nothing is
registered with the compiler, so that no frame, guard or graph is another one with us.
"""

from __future__ import annotations

import re
import sys
from _thread import allocate_lock
from pathlib import PurePath
from typing import Any, NamedTuple

from otel_rl.core import instrumentor_status

_MODULE = "torch._dynamo.utils"
#: The function of that module that returns the latest compilations.
_READER = "get_compilation_metrics"
STATUS = "torch_compile"
#: Text in a condition of a guard, such as a prompt; not the name of a variable, ``L['x']``, or of a tensor.
_TEXT = re.compile(r"""(?<!\[)(?<!tensor )(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?P=quote)(?!\])""")
_LONGEST_REASON = 500


class Compilation(NamedTuple):
    """One compilation; ``reason`` is empty for the first one of a function."""

    function: str
    seconds: float
    is_recompilation: bool
    reason: str


class Compilations:
    """Counts what PyTorch has compiled since the first :meth:`look`."""

    def __init__(self) -> None:
        self.number = self.recompilations = 0
        self.seconds = 0.0
        self._last: Any = None
        self._lock = allocate_lock()
        self._has_reported = False

    def look(self) -> list[Compilation]:
        """Return the compilations since the last look; an empty list while another thread looks."""
        module = sys.modules.get(_MODULE)
        if module is None or not self._lock.acquire(blocking=False):
            return []
        try:
            return self._look(module)
        finally:
            self._lock.release()

    def _look(self, module: Any) -> list[Compilation]:
        read = getattr(module, _READER, None)
        if read is None:
            self._report_missing()
            return []
        records = read()
        if not records or records[-1] is self._last:
            return []
        # PyTorch keeps the latest ones only: where the last one seen is gone, all are new.
        known = next((place for place in range(len(records) - 1, -1, -1) if records[place] is self._last), -1)
        # What is tuned while the program runs has a record too, without a compilation.
        new = [_compilation(record) for record in records[known + 1 :] if not getattr(record, "is_runtime", False)]
        self._last = records[-1]
        self.number += len(new)
        self.recompilations += sum(compilation.is_recompilation for compilation in new)
        self.seconds += sum(compilation.seconds for compilation in new)
        return new

    def _report_missing(self) -> None:
        if not self._has_reported:
            self._has_reported = True
            reason = f"this version of PyTorch lacks {_MODULE}.{_READER}: compilations are not counted"
            instrumentor_status.report(STATUS, instrumentor_status.DEGRADED, reason)

    def reset(self) -> None:
        """Begin at zero in a forked child."""
        self.number = self.recompilations = 0
        self.seconds = 0.0
        self._lock = allocate_lock()


def _compilation(record: Any) -> Compilation:
    """Read a record of any version of PyTorch; fields that it lacks are unknown."""
    seconds = _first(record, ("duration_us", 1e-6), ("entire_frame_compile_time_s", 1.0))
    reason = getattr(record, "recompile_reason", None)
    name, file = getattr(record, "co_name", None), getattr(record, "co_filename", None)
    line = getattr(record, "co_firstlineno", None)
    place = f" ({PurePath(file).name}:{line})" if file else ""
    # Of backward graphs, which follow their forward ones; before 2.6 they have a class of their own.
    is_backward = getattr(record, "is_forward", True) is False or type(record).__name__.startswith("Bwd")
    is_recompilation = not is_backward and (bool(reason) or _number_in_frame(record) > 0)
    return Compilation(
        f"{name or 'unknown'}{place}", seconds, is_recompilation, _condition(str(reason)) if reason else ""
    )


def _first(record: Any, *fields: tuple[str, float]) -> float:
    for field, factor in fields:
        value = getattr(record, field, None)
        if isinstance(value, (int, float)):
            return value * factor
    return 0.0


def _number_in_frame(record: Any) -> int:
    """Return how often the function had been compiled: the second number of an id such as ``3/1``."""
    _, _, number = str(getattr(record, "compile_id", "")).partition("/")
    digits = re.match(r"\d+", number)
    return int(digits.group()) if digits else 0


def _condition(reason: str) -> str:
    """Return the condition alone: behind it PyTorch quotes lines of the program, which may hold prompts too."""
    condition = _TEXT.sub("'...'", reason).splitlines()[0].partition("  #")[0]
    return condition.rstrip()[:_LONGEST_REASON]


compilations = Compilations()
