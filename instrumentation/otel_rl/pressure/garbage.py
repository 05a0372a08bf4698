"""Pauses by the garbage collector of Python, which stops all threads: how often, and for how long.

One callback in ``gc.callbacks``, twice per collection: it reads a clock and adds to a list. Nothing in it allocates
what the collector follows.
"""

from __future__ import annotations

import gc
import time
from typing import Any

clock = time.perf_counter
_GENERATIONS = 3


class Pauses:
    """Collections and seconds by generation, since :meth:`watch`."""

    def __init__(self) -> None:
        self.collections = [0] * _GENERATIONS
        self.seconds = [0.0] * _GENERATIONS
        self._began: float | None = None

    def watch(self) -> None:
        """Follow every collection from now on."""
        if self._collector not in gc.callbacks:
            gc.callbacks.append(self._collector)

    def leave(self) -> None:
        """Follow no collection any more."""
        if self._collector in gc.callbacks:
            gc.callbacks.remove(self._collector)

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
                self.collections[generation] += 1
                self.seconds[generation] += clock() - self._began
            self._began = None

    def reset(self) -> None:
        """A forked child begins at zero; it keeps the callback of its parent."""
        self.collections[:] = [0] * _GENERATIONS
        self.seconds[:] = [0.0] * _GENERATIONS
        self._began = None


pauses = Pauses()
