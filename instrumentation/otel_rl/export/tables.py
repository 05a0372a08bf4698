"""A run as tables for pandas and spreadsheets: spans, logged values, steps, trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.export import csv_cells, table_rows
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.export.table_rows import TableRows

_OF_STEPS = """
SELECT step, rank, attempt, loop, start, stop, process FROM step AS one
WHERE (step BETWEEN ? AND ?) AND (kind = 'rl.rank.step' OR NOT EXISTS (
    SELECT 1 FROM step AS other WHERE other.process = one.process AND other.kind = 'rl.rank.step'))
ORDER BY start, rank
"""
_OF_PHASES = "SELECT phase, sum(seconds) FROM phase WHERE process = ? AND step = ? GROUP BY phase"
_ALL = (-(2**63), 2**63 - 1)


def check_steps(tables: TableRows) -> None:
    """Make sure that a wanted step is there.

    Raises:
        UnusableInput: it is not.
    """
    wanted = tables.excerpt.steps
    spill = tables.spill
    if wanted is None or spill.row("SELECT count(*) FROM span WHERE step BETWEEN ? AND ?", wanted)[0]:
        return
    first, last = spill.row("SELECT min(step), max(step) FROM span")
    known = f"it has steps {first} to {last}" if first is not None else "it has no steps"
    raise UnusableInput(f"the run has no step from {wanted[0]} to {wanted[1]}; {known}")


def spans(tables: TableRows) -> Iterator[bytes]:
    """Yield the rows of the spans, by start."""
    yield csv_cells.line(table_rows.SPAN_COLUMNS)
    query = f"SELECT text FROM span {_where(tables, 'start')} ORDER BY start, stop DESC"  # noqa: S608 - ours
    for (text,) in tables.spill.rows(query):
        yield text


def values(tables: TableRows) -> Iterator[bytes]:
    """Yield the rows of logged values, by time."""
    yield csv_cells.line(table_rows.VALUE_COLUMNS)
    query = f"SELECT text FROM value {_where(tables, 'time')} ORDER BY time, rowid"  # noqa: S608 - ours
    for (text,) in tables.spill.rows(query):
        yield text


def steps(tables: TableRows) -> Iterator[bytes]:
    """Yield a row for each step of each rank, with the seconds of its phases."""
    spill = tables.spill
    spill.run("CREATE INDEX phase_by_step ON phase (process, step)")
    spill.run("CREATE INDEX step_by_process ON step (process, kind)")
    yield csv_cells.line((*table_rows.STEP_COLUMNS, *(f"{phase}_seconds" for phase in table_rows.PHASES)))
    for step, rank, attempt, loop, start, stop, process in spill.rows(_OF_STEPS, tables.excerpt.steps or _ALL):
        spent = dict(spill.rows(_OF_PHASES, (process, step)))
        own = (step, rank, attempt, loop, csv_cells.moment(start), csv_cells.moment(stop), (stop - start) / 1e9)
        yield csv_cells.line((*own, *(spent.get(phase) for phase in table_rows.PHASES)))


def trajectories(tables: TableRows) -> Iterator[bytes]:
    """Yield the rows of ``otel-rl trajectories``, with a column for each key."""
    columns = tables.columns()
    yield csv_cells.line(columns)
    for cells in tables.trajectories():
        yield csv_cells.line([cells.get(column) for column in columns])


#: Name of a file -> what yields its rows.
TABLES: dict[str, Callable[[TableRows], Iterator[bytes]]] = {
    "spans.csv": spans,
    "values.csv": values,
    "steps.csv": steps,
    "trajectories.csv": trajectories,
}


def _where(tables: TableRows, time: str) -> str:
    """Return the condition for the wanted steps: their own rows, and those of no step while they ran."""
    if tables.excerpt.steps is None:
        return ""
    first, last = tables.excerpt.steps
    begin, end = tables.spill.row("SELECT min(start), max(stop) FROM span WHERE step BETWEEN ? AND ?", (first, last))
    return (
        f"WHERE step BETWEEN {first:d} AND {last:d}"
        f" OR (step IS NULL AND {time} <= {end:d} AND {'stop' if time == 'start' else time} >= {begin:d})"
    )
