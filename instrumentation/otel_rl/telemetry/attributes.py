"""Attribute values as they may leave the process: no None, no string without a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Longest string attribute in characters; design rule 6. The marker says how much was there.
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


def error_type(error: BaseException) -> str:
    """Value of ``error.type`` for an exception: its qualified class name, as the semantic conventions ask."""
    kind = type(error)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
