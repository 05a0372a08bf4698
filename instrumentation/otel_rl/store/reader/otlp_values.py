"""Single values of OTLP JSON in any of their spellings; nonsense becomes an empty value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Attributes = dict[str, Any]

_LONGEST = 1e9  # seconds, 32 years
_TOO_LARGE = 2**64  # fixed64 times and counts are unsigned


def integer(value: Any) -> int:
    """Return an int64 in any of its spellings; 0 when absent or nonsense."""
    try:
        result = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return result if abs(result) < _TOO_LARGE else 0


def int_or_none(value: Any) -> int | None:
    """Return the value of an attribute that is an integer; None for a boolean and anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def float_or_none(value: Any) -> float | None:
    """Return the value of an attribute that is a number; None for a boolean and anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # JSON may have a whole number that no float holds.
    return number(value) if is_number else None


def seconds_or_none(value: Any) -> float | None:
    """Return the value of an attribute that is a duration; None for what none is: not finite, negative, centuries."""
    seconds = float_or_none(value)
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST else None


def number(value: Any) -> float:
    """Return a double in any of its spellings; NaN when absent or nonsense."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def any_value(value: Any) -> Any:
    """Return an OTLP ``AnyValue`` as a plain Python value."""
    if not isinstance(value, dict):
        return None
    for key, item in value.items():
        convert = _VALUES.get(key)
        if convert is not None:
            return convert(item)
    return None


def key_values(pairs: Any) -> Attributes:
    """Return a list of OTLP ``KeyValue`` as a dict; pairs without a key are left out."""
    if not isinstance(pairs, list):
        return {}
    return {
        str(pair["key"]): any_value(pair.get("value")) for pair in pairs if isinstance(pair, dict) and "key" in pair
    }


def list_of(owner: Any, key: str) -> list[Any]:
    """Return the list under ``key``; empty when absent or something else."""
    value = owner.get(key) if isinstance(owner, dict) else None
    return value if isinstance(value, list) else []


def items_of(owner: Any, key: str) -> list[Any]:
    """Return the mappings in the list under ``key``."""
    return [item for item in list_of(owner, key) if isinstance(item, dict)]


def mapping_of(owner: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the mapping under ``key``; empty when absent or something else."""
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


_VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": lambda item: item,
    "boolValue": lambda item: item,
    "bytesValue": lambda item: item,
    "intValue": integer,
    "doubleValue": number,
    "arrayValue": lambda item: [any_value(entry) for entry in items_of(item, "values")],
    "kvlistValue": lambda item: key_values(items_of(item, "values")),
}
