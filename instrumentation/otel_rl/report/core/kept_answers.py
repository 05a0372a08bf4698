"""Answers about the steps of a run that grows: what was asked of earlier steps is kept, the last ones are asked again.

A query gets the first and the last step that it is about as ``?4`` and ``?5``, behind what its stretch is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core.lines import Line
from otel_rl.store.tables.steps import IN_NO_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.store.tables import RunTables

#: The first number that SQLite knows, and the last one: that of what is in no step.
BEGIN, END = -(1 << 63), IN_NO_STEP
#: Steps before the last one of which records may still come: those of other ranks, and of what goes on.
_LATE = 200


class KeptAnswers:
    """Answers about the steps of one stretch: attempt, loop and restarts."""

    def __init__(self, tables: RunTables, stretch: tuple[str, str, int]) -> None:
        self._tables, self._stretch = tables, stretch
        #: First of the steps that are asked again.
        self._open = BEGIN
        #: Lines by query, and rows by query: each with the first of the steps that it has not.
        self._lines: dict[str, tuple[int, dict[Any, Line]]] = {}
        self._rows: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}

    def grow(self, first: int, last: int | None) -> None:
        """Take note that steps are new, or are not what they were; the last one is None for what is in no step."""
        self._lines = {query: kept for query, kept in self._lines.items() if kept[0] <= first}
        self._rows = {query: kept for query, kept in self._rows.items() if kept[0] <= first}
        if last is not None:
            self._open = max(last - _LATE, BEGIN)

    def lines(self, query: str) -> dict[Any, Line]:
        """Return lines by key of rows: key, step, number, sum, smallest and largest, ordered by key and step."""
        since, lines = self._lines.get(query, (BEGIN, {}))
        for line in lines.values():
            line.cut(since)
        for *key, step, number, total, low, high in self._tables.stream(query, *self._stretch, since, END):
            name = key[0] if len(key) == 1 else tuple(key)
            if name not in lines:
                lines[name] = Line()
            lines[name].append(step, number, total, low, high)
        self._lines[query] = self._open, lines
        return lines

    def rows(self, query: str, merged: Callable[[list[tuple[Any, ...]]], list[tuple[Any, ...]]]) -> list[Any]:
        """Return rows about all steps; ``merged`` makes of those about some steps and about others those about both."""
        since, kept = self._rows.get(query, (BEGIN, []))
        if self._open > since:
            kept = merged([*kept, *map(tuple, self._ask(query, since, self._open - 1))])
            self._rows[query] = self._open, kept
            since = self._open
        return merged([*kept, *map(tuple, self._ask(query, since, END))])

    def _ask(self, query: str, first: int, last: int) -> Sequence[Any]:
        return self._tables.rows(query, *self._stretch, first, last)


def sums(keys: int, *merges: Callable[[Any, Any], Any]) -> Callable[[list[tuple[Any, ...]]], list[tuple[Any, ...]]]:
    """Return what merges rows that begin with the same ``keys`` values, the others each with a function of two."""

    def _merged(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in rows:
            key, values = row[:keys], row[keys:]
            if (before := found.get(key)) is not None:
                values = tuple(
                    new if old is None else old if new is None else merge(old, new)
                    for merge, old, new in zip(merges, before, values, strict=True)
                )
            found[key] = values
        return [(*key, *values) for key, values in found.items()]

    return _merged
