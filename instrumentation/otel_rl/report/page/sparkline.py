"""A small curve without axes, as the points of an SVG polyline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.statistics import is_flat

if TYPE_CHECKING:
    from otel_rl.report.core.curves import Curve

WIDTH, HEIGHT = 100, 22
_POINTS, _FEWEST = 60, 5


def points(curve: Curve) -> str:
    """Return the points; empty for a line that is too short or flat."""
    if len(curve.y) < _FEWEST or is_flat(curve.y):
        return ""
    every = -(-len(curve.y) // _POINTS)
    y = [sum(part) / len(part) for start in range(0, len(curve.y), every) if (part := curve.y[start : start + every])]
    low, high = min(y), max(y)
    scale = (HEIGHT - 2) / (high - low) if high > low else 0.0
    step = WIDTH / (len(y) - 1)
    return " ".join(f"{place * step:.1f},{HEIGHT - 1 - (value - low) * scale:.1f}" for place, value in enumerate(y))
