"""Rows of CSV as RFC 4180 has them, in UTF-8, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What makes a spreadsheet take a text for a formula, at its begin.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_SECOND = 1_000_000_000


def line(cells: Sequence[Any]) -> bytes:
    """Return one row; None is an empty cell, text that looks like a formula gets an apostrophe before it."""
    text = io.StringIO()
    csv.writer(text).writerow([_cell(cell) for cell in cells])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\0", "\ufffd")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def moment(time: int) -> str:
    """Return ns since the epoch as ISO 8601 in UTC, exact."""
    seconds, rest = divmod(time, _SECOND)
    # Beyond the year 9999 is no time that `is_moment` lets through.
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
