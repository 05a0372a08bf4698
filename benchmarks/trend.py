"""The slope of a series with its 95 % interval."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Two-sided 95 % quantile of Student's t by degrees of freedom; beyond the table the normal one is close enough.
_T = {3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 8: 2.31, 10: 2.23, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.0}


def slope(positions: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    """Least-squares slope of ``values``, with an interval from its residuals.

    Neighbouring residuals of a process' memory resemble each other, which makes a plain interval too narrow. The number
    of samples is reduced by their correlation: ``n (1 - r) / (1 + r)``.
    """
    count = len(values)
    middle, level = sum(positions) / count, sum(values) / count
    spread = sum((position - middle) ** 2 for position in positions)
    found = sum((p - middle) * (v - level) for p, v in zip(positions, values, strict=True)) / spread
    residuals = [v - level - found * (p - middle) for p, v in zip(positions, values, strict=True)]
    squares = sum(residual**2 for residual in residuals)
    half = 0.0
    if squares > 0:
        correlation = sum(a * b for a, b in itertools.pairwise(residuals)) / squares
        correlation = min(max(correlation, 0.0), 0.9)
        independent = max(count * (1 - correlation) / (1 + correlation), 5.0)
        error = math.sqrt(squares / (independent - 2) / spread * count / independent)
        half = _student(independent - 2) * error
    return {"value": found, "lower_95": found - half, "upper_95": found + half}


def _student(degrees: float) -> float:
    return next((quantile for known, quantile in reversed(_T.items()) if known <= degrees), 3.18)
