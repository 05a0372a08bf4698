"""Attribute values as they may leave the process: no None, no string without a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Longest string attribute in characters: everything we record is bounded. The marker says how much was there.
MAXIMUM_LENGTH = 8192


def truncate(text: str) -> str:
    """Cut ``text`` to the limit and say so at its end."""
    if len(text) <= MAXIMUM_LENGTH:
        return text
    marker = f"... [truncated, {len(text)} characters]"
    return text[: MAXIMUM_LENGTH - len(marker)] + marker


def clean(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Drop None values, cut long strings."""
    if not attributes:
        return {}
    return {
        key: truncate(value) if type(value) is str else value for key, value in attributes.items() if value is not None
    }


def plain(value: Any) -> Any:
    """A log body as the encoders take it: they refuse a whole batch for one value of another type."""
    if value is None or isinstance(value, str | bool | float | bytes):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def error_type(error: BaseException) -> str:
    """Value of ``error.type`` for an exception: its qualified class name, as the semantic conventions ask."""
    kind = type(error)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
