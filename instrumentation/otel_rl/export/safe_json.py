"""JSON that every reader takes: no NaN, no lone surrogate, numbers that are numbers."""

from __future__ import annotations

import json
import math
from typing import Any

#: Deepest nesting of a value; what is deeper is written as text.
_DEEPEST = 50

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str).encode


def encoded(value: Any) -> bytes:
    """Return ``value`` as JSON in UTF-8; NaN and infinity become text, lone surrogates question marks."""
    try:
        text = _encode(value)
    except (ValueError, RecursionError):
        text = _encode(_finite(value, 0))
    return text.encode("utf-8", "replace")


def _finite(value: Any, depth: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth >= _DEEPEST and isinstance(value, (dict, list)):
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {str(key): _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, depth + 1) for item in value]
    return value


def microseconds(nanoseconds: int) -> str:
    """Return ns as the decimal number of µs, exact: the form of times in Chrome JSON."""
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{size // 1000}.{size % 1000:03d}"
