"""Rows on disk: sorted and joined there, so that memory does not grow with the run.

SQLite sorts and joins outside of the memory. Its file lies beside the output, not in ``/tmp``, which is memory on many
machines, and is unlinked at once: it is gone with the process, however that ends.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Self

#: Rows that are inserted together.
_TOGETHER = 2000
#: Pages of the database that are kept in memory, in KiB.
_CACHE_KIB = 16 * 1024

_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA temp_store = FILE",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
)


class Spill:
    """``with Spill(folder, schema) as spill: spill.add("span", row)``; ``schema`` maps tables to their columns."""

    def __init__(self, folder: Path, schema: dict[str, str]) -> None:
        self._folder, self._schema = folder, schema
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in schema}
        self._insert = {
            table: f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns.split(',')))})"  # noqa: S608 - ours
            for table, columns in schema.items()
        }

    def __enter__(self) -> Self:
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".otel-rl-export.")
        try:
            os.close(descriptor)
            self._database = sqlite3.connect(name, isolation_level=None)
            for setting in _SETTINGS:
                self._database.execute(setting)
            for table, columns in self._schema.items():
                self._database.execute(f"CREATE TABLE {table} ({columns})")
        finally:
            os.unlink(name)  # noqa: PTH108 - the open database keeps the file
        self._database.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Insert a row, soon."""
        waiting = self._waiting[table]
        waiting.append(row)
        if len(waiting) >= _TOGETHER:
            self._flush(table)

    def flush(self) -> None:
        """Insert what waits: from here on queries see all rows."""
        for table in self._schema:
            self._flush(table)

    def _flush(self, table: str) -> None:
        self._database.executemany(self._insert[table], self._waiting[table])
        self._waiting[table].clear()

    def run(self, statement: str, values: Iterable[Any] = ()) -> int:
        """Execute a statement; the number of rows that it changed."""
        return self._database.execute(statement, tuple(values)).rowcount

    def rows(self, query: str, values: Iterable[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query, one at a time."""
        return self._database.execute(query, tuple(values))

    def row(self, query: str, values: Iterable[Any] = ()) -> tuple[Any, ...]:
        """Return the one row of a query."""
        answer: tuple[Any, ...] = self._database.execute(query, tuple(values)).fetchone()
        return answer
