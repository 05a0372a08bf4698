"""Pauses by the garbage collector of Python, which stops all threads: how often, and from Python 3.12 on for how long.

One callback in ``gc.callbacks``, twice per collection: it reads a clock and adds to a list. Nothing in it allocates
what the collector follows.

Before 3.12 a collection begins in the middle of an operation that allocates, such as ``list(dictionary.items())``. A
callback in Python lets other threads run there. Where one of them changes the dictionary, the program gets an error
that it would never get without us (RuntimeError: dictionary changed size during iteration). So there is none.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from otel_rl.core import code_places

clock = time.perf_counter
_GENERATIONS = 3
#: From 3.12 on (gh-97922) a collection waits for the end of the bytecode.
CAN_BE_TIMED = sys.version_info >= (3, 12)


class Pauses:
    """Collections of this process, and seconds since :meth:`watch`, by generation."""

    def __init__(self) -> None:
        #: Whether there is a callback, and seconds.
        self.are_timed = CAN_BE_TIMED
        #: Of the parent, in a forked child.
        self._earlier = [0] * _GENERATIONS
        self.seconds = [0.0] * _GENERATIONS
        self._began: float | None = None

    def watch(self) -> None:
        """Follow every collection from now on, where that does no harm."""
        if self.are_timed and self._collector not in gc.callbacks:
            gc.callbacks.append(self._collector)

    def leave(self) -> None:
        """Stop following collections."""
        if self._collector in gc.callbacks:
            gc.callbacks.remove(self._collector)

    @property
    def collections(self) -> list[int]:
        """Collections of each generation in this process."""
        stats = [generation["collections"] for generation in gc.get_stats()]
        return [number - before for number, before in zip(stats, self._earlier, strict=False)]

    @property
    def total(self) -> float:
        """Seconds of all generations."""
        return sum(self.seconds)

    def _collector(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = clock()
        elif self._began is not None:
            generation = info["generation"]
            if generation < _GENERATIONS:
                self.seconds[generation] += clock() - self._began
            self._began = None

    def reset(self) -> None:
        """Begin at zero in a forked child, which keeps the callback of its parent."""
        self._earlier = [generation["collections"] for generation in gc.get_stats()]
        self.seconds[:] = [0.0] * _GENERATIONS
        self._began = None


pauses = Pauses()
# Other threads run only once the collection is over and this is called.
code_places.garbage_callbacks.add(Pauses._collector.__code__)  # noqa: SLF001 - of this module
