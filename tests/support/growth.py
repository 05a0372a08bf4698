"""How the CPU time of a function grows with its input: a ratio in one run, which a busy machine does not change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: 8 times the input may take 16 times as long: linear growth, with a factor of 2 for noise. Quadratic growth takes 64.
LARGER, MOST = 8, 16
#: CPU seconds below which a difference says nothing.
_NOISE = 0.05


def is_in_proportion(work: Callable[[int], object], size: int) -> bool:
    """Return whether the CPU time of ``work`` grows about linearly from an eighth of ``size`` to ``size``."""
    small, large = (min(_cpu_seconds(work, length) for _ in range(2)) for length in (size // LARGER, size))
    return large <= MOST * small + _NOISE


def _cpu_seconds(work: Callable[[int], object], size: int) -> float:
    began = time.thread_time()
    work(size)
    return time.thread_time() - began
