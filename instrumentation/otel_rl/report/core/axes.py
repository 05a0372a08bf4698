"""Units of the axes of charts: one for a whole axis, such that its numbers are short."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHARE = "share"


@dataclass(frozen=True, slots=True)
class Axis:
    """Values times ``factor`` are in the unit that ``label`` names."""

    factor: float
    label: str


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is drawn: its units, from the smallest up, each for values below a limit, and a single value in words."""

    units: tuple[tuple[float, Axis], ...]
    words: Callable[[float | None], str]
    noun: str = ""

    def axis(self, values: Iterable[float]) -> Axis:
        """Return the unit that suits the largest of the values."""
        largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        unit = next((axis for limit, axis in self.units if largest < limit), self.units[-1][1]) if largest else None
        return unit or next(axis for limit, axis in self.units if limit > 1)

    def label(self, axis: Axis) -> str:
        """Return the label of the axis."""
        return f"{self.noun} ({axis.label})" if self.noun and axis.label else self.noun or axis.label


SECONDS = Quantity(
    (
        (1e-3, Axis(1e6, "µs")),
        (1, Axis(1e3, "ms")),
        (120, Axis(1, "s")),
        (7200, Axis(1 / 60, "min")),
        (math.inf, Axis(1 / 3600, "h")),
    ),
    human.duration,
)
BYTES = Quantity(
    tuple(
        (1024.0 ** (place + 1) if unit != "TiB" else math.inf, Axis(1024.0**-place, unit))
        for place, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
    ),
    human.size,
)
NUMBER = Quantity(
    (
        *(
            (limit, Axis(10.0**-exponent, f"{human.TIMES} {human.power(exponent)}"))
            for limit, exponent in ((1e-9, -12), (1e-6, -9), (1e-3, -6), (1e-2, -3))
        ),
        (1e5, Axis(1, "")),
        (1e6, Axis(1e-3, "thousands")),
        (1e9, Axis(1e-6, "millions")),
        (math.inf, Axis(1e-9, "billions")),
    ),
    human.number,
)


def of_unit(unit: str) -> Quantity:
    """Return the quantity of values in ``seconds``, a ``share of ...`` from 0 to 1, or of numbers of a noun."""
    if unit == "seconds":
        return SECONDS
    if unit.startswith(_SHARE):
        return Quantity(((math.inf, Axis(100, f"%{unit.removeprefix(_SHARE)}")),), human.percent)
    return Quantity(NUMBER.units, NUMBER.words, unit)
