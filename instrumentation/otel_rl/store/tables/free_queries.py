"""Queries that a user writes: they read, for some seconds, and do nothing else."""

from __future__ import annotations

import re
import sqlite3
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_Row = TypeVar("_Row")
#: SQLite asks for each of these before it compiles a statement; ``SQLITE_RECURSIVE`` has no name before Python 3.11.
_RECURSIVE = 33
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, _RECURSIVE})
_FOREIGN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
#: Operations of SQLite's machine between two looks at the clock, and bytes of one value.
_OPERATIONS, _LARGEST_VALUE = 20_000, 100_000_000
#: ``SQLITE_LIMIT_LENGTH``, and ``setlimit`` that takes it, are of Python 3.11.
_LIMIT_LENGTH = 0
#: Words that statements begin with that give rows and change nothing.
_BEGINNINGS = ("select", "with", "values", "explain")
_MADE = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
_MEANING = re.compile(r"^ +(\w+)\b[^\n]*?-- (.*)$", re.MULTILINE)


class QueryError(Exception):
    """A query cannot be answered; the message says why, for the user."""


class Column(NamedTuple):
    """A column of a table, with its type and what it holds."""

    name: str
    kind: str
    meaning: str


class Restricted:
    """Restricts a database to reads, with one time budget in seconds for all queries."""

    def __init__(self, database: sqlite3.Connection, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        database.set_authorizer(_authorize)
        database.set_progress_handler(lambda: int(self.is_over), _OPERATIONS)
        if hasattr(database, "setlimit"):
            database.setlimit(_LIMIT_LENGTH, _LARGEST_VALUE)

    @property
    def is_over(self) -> bool:
        """True if the time budget is used up."""
        return time.monotonic() > self._end

    def unhurried(self, rows: Iterable[_Row]) -> Iterator[_Row]:
        """Yield rows without charging the consumer's time to the budget."""
        for row in rows:
            given = time.monotonic()
            yield row
            self._end += time.monotonic() - given


def checked(query: str) -> str:
    """Return the query.

    Raises:
        QueryError: it is no question.
    """
    if not query.lstrip(" \t\r\n(").lower().startswith(_BEGINNINGS):
        raise QueryError("a query can only read; start it with SELECT or WITH")
    return query


def _authorize(action: int, _first: str | None, second: str | None, *_: object) -> int:
    is_foreign = action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FOREIGN_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _READS and not is_foreign else sqlite3.SQLITE_DENY


def why(error: Exception) -> str:
    """Return what is wrong with a query, in words that say what to do."""
    said = str(error)
    if "not authorized" in said or "prohibited" in said:
        return f"{said}: a query can only read; start it with SELECT or WITH"
    if "interrupted" in said:
        return "the query takes too long; narrow it down, or give it more time with --seconds"
    if "one statement" in said:
        return "several statements are given; ask one at a time"
    if "no such table" in said or "no such column" in said:
        return f"{said}; without a query `otel-rl sql` prints the tables and their columns"
    return said


def tables(database: sqlite3.Connection) -> dict[str, list[Column]]:
    """Return the columns of each table that has rows, in the order of their making."""
    made = database.execute(_MADE).fetchall()
    return {
        name: list(_columns(database, name, dict(_MEANING.findall(sql))))
        for name, sql in made
        if database.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() is not None
    }


def _columns(database: sqlite3.Connection, table: str, meanings: Mapping[str, str]) -> Iterator[Column]:
    for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})"):
        yield Column(name, kind, meanings.get(name, ""))


def views(database: sqlite3.Connection) -> set[str]:
    """Return the names of the views."""
    return {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
