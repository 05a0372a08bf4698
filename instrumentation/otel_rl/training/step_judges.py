"""What the judges of a step were asked that is in no row, on the span of the step: nothing divides that of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Mapping

_totals: WeakKeyDictionary[steps.Step, dict[str, float]] = WeakKeyDictionary()


def add(step: steps.Step, values: Mapping[str, float]) -> None:
    """Add a reward that has ended; after its step it is on its own span only."""
    if not step.is_open:
        return
    steps.contributors.add(_contribute)
    totals = _totals.setdefault(step, {})
    for name, value in values.items():
        totals[name] = totals.get(name, 0) + value


def _contribute(step: steps.Step) -> None:
    totals = _totals.pop(step, None)
    if totals:
        step.describe(totals)
