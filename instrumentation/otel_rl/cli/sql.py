"""``otel-rl sql [DIR] [QUERY] [--run ID] [--csv | --json] [--seconds N]``."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.cli import complain, run_directory, say, terminal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from otel_rl.store.tables import RunTables
    from otel_rl.store.tables.free_queries import Column

_DESCRIPTION = """\
Ask a run with SQL, as SQLite has it. Without QUERY the tables that the run has rows in are printed, with what their
columns hold. Nothing can be written."""

_EPILOG = """\
Each table has a view with the plural of its name: with rank, label and attempt of the process, and without the
attempts that a later one follows. Times are in ns since the epoch, durations in s. docs/sql.md has more examples.

  otel-rl sql
  otel-rl sql "SELECT name, count(*), avg(seconds) FROM calls GROUP BY name"
  otel-rl sql otel-rl/RUN "SELECT step, value FROM scalars WHERE key = 'reward' ORDER BY step" --csv > reward.csv

Exit status: 0 the rows are printed, also where there are none; 2 there is nothing to read, or the query is wrong."""

#: Rows of a table for people; others get all of them.
_MOST_ROWS = 1000
_MOST_WIDTH = 80


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("words", metavar="DIR QUERY", nargs="*", help="what to read, and what to ask")
    parser.add_argument(
        "--run", metavar="ID", help="which run, if DIR holds several; the beginning of its id is enough"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print all rows as CSV, with a line of names")
    form.add_argument("--json", action="store_true", help="print all rows as JSON, an object a line")
    parser.add_argument(
        "--seconds", metavar="N", type=float, default=60.0, help="give up a query that takes longer (default: 60)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the rows."""
    from otel_rl.store.tables import free_queries  # noqa: PLC0415 - only this command needs it

    query = _taken_query(arguments.words)
    arguments.directory = [Path(word) for word in arguments.words]
    restricted = None
    try:
        tables, notes = _read(arguments)
        if not query:
            _print_tables(tables)
        else:
            restricted = tables.restrict(arguments.seconds)
            cursor = tables.stream(free_queries.checked(query))
            notes += _print([column[0] for column in cursor.description], restricted.unhurried(cursor), arguments)
    except (sqlite3.Error, sqlite3.Warning, free_queries.QueryError) as error:
        if "interrupted" in str(error) and restricted is not None and not restricted.is_over:
            # By Ctrl-C, of which SQLite says no more than that.
            raise KeyboardInterrupt from error
        return complain("sql", terminal.one_line(free_queries.why(error)))
    say("sql", notes)
    return 0


def _taken_query(words: list[str]) -> str:
    """Take the query out of the words: the last one that names no folder."""
    # Path.is_dir raises an error for a text that is too long for a name.
    places = [place for place, word in enumerate(words) if not os.path.isdir(word)]  # noqa: PTH112 - as above
    return words.pop(places[-1]) if places else ""


def _read(arguments: argparse.Namespace) -> tuple[RunTables, list[str]]:
    """Return the tables of the run, and what the user should know of what was read."""
    from otel_rl.report.core import reading  # noqa: PLC0415 - only this command needs the reader
    from otel_rl.report.core.collected import Collected  # noqa: PLC0415 - as above
    from otel_rl.store.reader import Reader, find_run  # noqa: PLC0415 - as above

    source = find_run(run_directory.choose_run_directory(arguments), arguments.run)
    collected = Collected(Reader(source), ())
    with reading.bar("reading", source.size, "B") as advance:
        tables = collected.load_tables(advance)
    return tables, reading.notes_of(source, collected.reader)


def _print_tables(tables: RunTables) -> None:
    views = tables.views()
    for name, columns in tables.described().items():
        plural = f"{name}s"
        print(f"{name}{f', and the view {plural}' if plural in views else ''}")
        _print_columns(columns)
        print()


def _print_columns(columns: Sequence[Column]) -> None:
    widest = max(len(column.name) for column in columns)
    for name, kind, meaning in columns:
        print(f"  {name:<{widest}}  {kind:<7}  {meaning}".rstrip())


def _print(names: list[str], rows: Iterable[Sequence[Any]], arguments: argparse.Namespace) -> list[str]:
    """Print the rows; what is to be said of them."""
    from otel_rl.export import csv_cells  # noqa: PLC0415 - as above

    if arguments.csv:
        for cells in chain([names], map(_plain, rows)):
            print(csv_cells.line(cells).decode().removesuffix("\r\n"))
    elif arguments.json:
        keys = _distinct(names)
        for row in rows:
            print(json.dumps(dict(zip(keys, _plain(row), strict=True))))
    else:
        return _print_table(names, iter(rows))
    return []


def _distinct(names: list[str]) -> list[str]:
    """Return names of columns as keys: from the second one on those that are the same have a number."""
    keys: list[str] = []
    for name in names:
        same, key = 1, name
        while key in keys:
            same += 1
            key = f"{name}_{same}"
        keys.append(key)
    return keys


def _plain(row: Sequence[Any]) -> list[Any]:
    """Return values that CSV and JSON have: what is not finite as a word, bytes as hexadecimal digits."""
    return [
        value.hex() if isinstance(value, bytes)
        else str(value) if isinstance(value, float) and not math.isfinite(value)
        else value
        for value in row
    ]  # fmt: skip


def _print_table(names: list[str], rows: Iterator[Sequence[Any]]) -> list[str]:
    shown = [[_cell(value) for value in row] for row in islice(rows, _MOST_ROWS)]
    table = [[terminal.one_line(name) for name in names], *shown]
    widths = [max(terminal.width(row[place]) for row in table) for place in range(len(names))]
    is_number = [bool(shown) and all(_is_number(row[place]) for row in shown) for place in range(len(names))]
    for row in table:
        cells = zip(row, widths, is_number, strict=True)
        print("  ".join(terminal.pad(cell, width, right=right) for cell, width, right in cells).rstrip())
    more = next(rows, None) is not None
    return [f"the first {_MOST_ROWS} rows are shown; --csv and --json print all"] if more else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return terminal.cut(terminal.one_line(value.hex() if isinstance(value, bytes) else str(value)), _MOST_WIDTH)


def _is_number(cell: str) -> bool:
    return not cell or cell.lstrip("-")[:1].isdigit() or cell.lstrip("-") in ("inf", "nan")
