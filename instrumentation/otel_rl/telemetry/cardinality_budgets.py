"""Limits the number of values of metric attributes that programs and models choose; the registry sets the limits.

:func:`labels` is the one place that enforces it; every method of :class:`~otel_rl.telemetry.scope.Scope` that measures
goes through it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import raises_internal_errors
from otel_rl.semconv import attributes
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import plain, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.semconv.definitions import MetricDefinition

#: Stands for every value beyond the budget.
OTHER = attributes.ErrorTypeValues.OTHER
#: Budget of an attribute for which the registry gives none.
DEFAULT_BUDGET = 100
#: Longest value of a metric attribute: each series keeps its own copy, in every backend.
MAXIMUM_LENGTH = 256

_seen: dict[str, set[Any]] = {}


def _values_of(key: str) -> set[Any]:
    """Return the values of ``key`` admitted so far; members of an enumeration of the registry always are."""
    members = getattr(
        attributes, "".join(part.capitalize() for part in key.replace("_", ".").split(".")) + "Values", None
    )
    known = {value for name, value in vars(members).items() if name.isupper()} if members is not None else set()
    if len(known) < attributes.CARDINALITY.get(key, DEFAULT_BUDGET):
        known.add(OTHER)
    return _seen.setdefault(key, known)


def admit(key: str, value: Any) -> Any:
    """``value`` as it may be the metric attribute ``key``: plain, and :data:`OTHER` once the budget is used up."""
    value = plain(value)
    value = text(value, MAXIMUM_LENGTH) if isinstance(value, str) else value
    if isinstance(value, list | dict):
        value = text(str(value), MAXIMUM_LENGTH)
    seen = _seen.get(key)
    if seen is None:
        seen = _values_of(key)
    if isinstance(value, float) and not math.isfinite(value):
        # NaN equals nothing, itself included.
        value = str(value)
    # True, 1 and 1.0 are one member of a set, but three series of the SDK.
    member = value if isinstance(value, str) or type(value) is int else (type(value), value)
    if member not in seen:
        if len(seen) >= attributes.CARDINALITY.get(key, DEFAULT_BUDGET):
            return OTHER
        seen.add(member)
    return value


def within_budget(key: str, value: str) -> str:
    """``value`` as the metric attribute ``key`` will show it, for code that needs to know before it measures."""
    return str(admit(key, value))


def labels(metric: MetricDefinition, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Attributes of one measurement, within the budgets; None when it must not be recorded.

    A value beyond its budget becomes :data:`OTHER`. A gauge of many keys at once would say nothing: its measurement is
    dropped. An attribute that the registry does not list for ``metric`` is left out. All of these are counted.

    Raises:
        ValueError: for an attribute that is not listed, under our own tests only.
    """
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if value is None:
            continue
        kind = type(value)
        seen = _seen.get(key)
        if seen is not None and (kind is str or kind is int) and value in seen and key in metric.attributes:
            kept[key] = value
            continue
        if key not in metric.attributes:
            if raises_internal_errors():
                raise ValueError(f"the registry lists no attribute {key!r} for {metric.name}")
            drops.count("metrics", "unlisted_attribute")
            continue
        admitted = admit(key, value)
        if admitted == OTHER and not (kind is str and value == OTHER):
            drops.count("metrics", "cardinality")
            if metric.instrument == "gauge":
                return None
        kept[key] = admitted
    return kept
