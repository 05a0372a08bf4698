"""What is kept of a growing run: results for old steps are cached, recent steps are queried again.

Queries take attempt, loop and restarts as ``?1`` to ``?3``, and the first and last step as ``?4`` and ``?5``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from otel_rl.report.core.lines import Line
from otel_rl.store.tables.steps import IN_NO_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from otel_rl.report.core.levels import Rise
    from otel_rl.store.tables import RunTables

#: SQLite's smallest and largest integers; the largest stands for records outside of all steps.
BEGIN, END = -(1 << 63), IN_NO_STEP
#: Steps this close to the newest one may still get records: from slower ranks, and from open spans.
_LATE = 200


class KeptAnswers:
    """Cached query results for one stretch: attempt, loop and restarts."""

    def __init__(self, tables: RunTables, stretch: tuple[str, str, int]) -> None:
        self._tables, self._stretch = tables, stretch
        #: First step that is queried again each time.
        self._open = BEGIN
        #: Lines by query, and rows by query, each with the first step that is not cached.
        self._lines: dict[str, tuple[int, dict[Any, Line]]] = {}
        self._rows: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}

    def grow(self, first: int, last: int | None) -> None:
        """Drop results that include changed steps; ``last`` is None if only records outside of steps changed."""
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
        """Return rows for all steps; ``merged`` combines rows for disjoint ranges of steps."""
        since, kept = self._rows.get(query, (BEGIN, []))
        if self._open > since:
            kept = merged([*kept, *map(tuple, self._ask(query, since, self._open - 1))])
            self._rows[query] = self._open, kept
            since = self._open
        return merged([*kept, *map(tuple, self._ask(query, since, END))])

    def _ask(self, query: str, first: int, last: int) -> Sequence[Any]:
        return self._tables.rows(query, *self._stretch, first, last)


def sums(keys: int, *merges: Callable[[Any, Any], Any]) -> Callable[[list[tuple[Any, ...]]], list[tuple[Any, ...]]]:
    """Return a function that merges rows with equal first ``keys`` columns, each other column by its function."""

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


_Found = TypeVar("_Found")


class EarlierLooks:
    """What was found in series that grow: to look again at each new point would cost most of what following a run does.

    A series is looked at again after ``fresh`` seconds; with 0, as in a report, always.
    """

    def __init__(self, fresh: float = 0.0) -> None:
        self._fresh = fresh
        #: By series when it was looked at, its points at that time, and what was found.
        self._looks: dict[Hashable, tuple[float, int, Any]] = {}

    def find(self, key: Hashable, points: int, look: Callable[[], _Found]) -> _Found:
        """Return what ``look`` finds, or has found lately in the series with this key, which has so many points."""
        return self._look(key, points, look)[1]

    def rise(self, key: Hashable, points: int, look: Callable[[], Rise | None]) -> Rise | None:
        """Like :meth:`find`, for a rise: one that reached the end of the series is extended to its new end."""
        seen, found = self._look(key, points, look)
        return replace(found, last=points - 1) if found is not None and found.last == seen - 1 else found

    def _look(self, key: Hashable, points: int, look: Callable[[], _Found]) -> tuple[int, _Found]:
        if not self._fresh:
            return points, look()
        now, (moment, seen, found) = time.monotonic(), self._looks.get(key, (-inf, 0, None))
        if points < seen or now > moment + self._fresh:
            found = look()
            self._looks[key] = now, points, found
            return points, found
        return seen, found
