"""Fields of what clients send and return: dictionaries, and models of pydantic."""

from __future__ import annotations

from typing import Any

NOTHING: dict[str, Any] = {}
#: Counts from here on are none: OTLP carries integers of 64 bit, and one such number would stay in a sum for ever.
_LIMIT = 1 << 53


def fields_of(source: Any) -> dict[str, Any]:
    """Return the fields of a model or dictionary, without the cost of looking for one that is not there."""
    return source if isinstance(source, dict) else getattr(source, "__dict__", NOTHING)


def extra_of(source: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that the protocol of OpenAI does not have; pydantic 1 keeps them among the others."""
    extra = getattr(source, "__pydantic_extra__", fields)
    return extra or NOTHING


def all_fields_of(source: Any) -> dict[str, Any]:
    """Return the fields of a model or dictionary, with those that the protocol of OpenAI does not have."""
    fields = fields_of(source)
    extra = getattr(source, "__pydantic_extra__", None)
    return {**fields, **extra} if extra else fields


def items_of(source: Any) -> list[Any] | tuple[Any, ...]:
    """Return the items of a list; none where a program or server put something else there."""
    return source if isinstance(source, list | tuple) else ()


def text_of(source: Any) -> str | None:
    """Return a text that is not empty, else None."""
    return source if isinstance(source, str) and source else None


def count_of(source: Any) -> int | None:
    """Return a count of tokens; None for anything else that a server sends."""
    if type(source) is int:
        return source if 0 <= source < _LIMIT else None
    return int(source) if isinstance(source, float) and 0 <= source < _LIMIT and source.is_integer() else None


def number_of(source: Any) -> float | None:
    """Return a time, size or speed, else None."""
    return float(source) if isinstance(source, int | float) and 0 <= source < _LIMIT else None
