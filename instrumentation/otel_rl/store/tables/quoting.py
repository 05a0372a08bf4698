"""Values that SQLite has no form for.

The fast way is to insert rows as they are. A row with such a value makes it fail, and that one and those behind it are
made over: integers beyond 64 bits become NULL, halves of surrogate pairs a question mark, other objects their text.
"""

from __future__ import annotations

import sqlite3
from typing import Any

#: What :mod:`sqlite3` raises for a value that it cannot bind.
ERRORS = (OverflowError, UnicodeEncodeError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
_LARGEST = 2**63


def bindable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of values that SQLite takes."""
    return tuple(map(_bindable, row))


def _bindable(value: Any) -> Any:
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else None
    if value is None or isinstance(value, (float, bytes)):
        return value
    return str(value).encode("utf-8", "replace").decode()
