"""``OTEL_RL_LABELS``: other names for logged keys, or none, so that a key stays out of what is recorded.

Rules are read from left to right, and the first that fits a key counts. ``train/loss=loss`` renames a key,
``my/*=eval/*`` replaces the part before the ``*``, ``debug/*=-`` hides the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from otel_rl.core import settings
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = TypeVar("Value")

#: In place of a name.
HIDDEN = "-"
#: Most keys whose name is remembered.
_MOST = 4096

_names: dict[str, str | None] = {}


def name_of(key: str) -> str | None:
    """Return the name under which ``key`` is recorded; None where it is hidden, which is counted."""
    rules = settings.current().labels
    if rules is None:
        return key
    if key in _names:
        name = _names[key]
    else:
        name = _first_that_fits(rules, key)
        if len(_names) < _MOST:
            _names[key] = name
    if name is None:
        drops.count("logs", "hidden")
    return name


def renamed(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return ``values`` under the names that they are recorded with.

    Of several values under one name the last one stays, and the others are counted.
    """
    if settings.current().labels is None:
        return values
    shown = [(name, value) for key, value in values.items() if (name := name_of(key)) is not None]
    named = dict(shown)
    drops.count("logs", "same_name", len(shown) - len(named))
    return named


def reset() -> None:
    """Forget the names, where the settings have changed."""
    _names.clear()


def _first_that_fits(rules: tuple[tuple[str, str], ...], key: str) -> str | None:
    for pattern, name in rules:
        before, star, after = pattern.partition("*")
        fits = key == pattern
        if star:
            fits = len(key) >= len(before) + len(after) and key.startswith(before) and key.endswith(after)
        if fits:
            middle = key[len(before) : len(key) - len(after)]
            return None if name == HIDDEN else name.replace("*", middle)
    return key
