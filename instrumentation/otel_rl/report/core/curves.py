"""A line of values that the page draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Curve:
    """One line: iterations (or seconds since the start) against means of ``number`` values in all."""

    name: str
    x: list[float]
    y: list[float]
    number: int
    over_time: bool = False
