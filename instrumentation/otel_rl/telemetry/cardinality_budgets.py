"""Metric attributes whose values programs and models make up: the registry says how many of each there may be."""

from __future__ import annotations

from otel_rl.semconv import attributes

#: Stands for every value beyond the budget.
OTHER = attributes.ErrorTypeValues.OTHER

_seen: dict[str, set[str]] = {}


def within_budget(key: str, value: str) -> str:
    """``value`` as it may be the metric attribute ``key``: itself, or :data:`OTHER` once the budget is used up."""
    seen = _seen.setdefault(key, set())
    if value not in seen:
        if len(seen) >= attributes.CARDINALITY[key] - 1:
            return OTHER
        seen.add(value)
    return value
