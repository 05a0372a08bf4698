"""Values that the program gives by :func:`otel_rl.gauge`: over time, since they belong to no step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.curves import of_line
from otel_rl.report.core.lines import over_time

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve

#: Most names, and most sets of attributes of each, that are drawn.
MOST_NAMES, MOST_SETS = 60, 8
_POINTS = "point WHERE scope = 'otel_rl.api' AND metric NOT LIKE 'rl.%'"
_NAMES = f"SELECT metric, count(DISTINCT series) FROM {_POINTS} GROUP BY metric ORDER BY metric"
_DRAWN = f"""(metric, series) IN (
  SELECT metric, series FROM (
    SELECT metric, series, dense_rank() OVER (ORDER BY metric) AS name,
           row_number() OVER (PARTITION BY metric ORDER BY series) AS place
    FROM (SELECT DISTINCT metric, series FROM p))
  WHERE name <= {MOST_NAMES} AND place <= {MOST_SETS})"""


class ProgramGauge(NamedTuple):
    """The lines of a gauge, one for each set of attributes; that of no attributes has the name of the gauge."""

    name: str
    curves: list[Curve]
    #: Sets of attributes that have no line.
    left_out: int


def drawn(collected: Collected) -> list[ProgramGauge]:
    """Return the gauges that are drawn; the mean over the processes that have it."""
    curves: dict[str, list[Curve]] = {}
    for (name, series), line in over_time(collected.tables, "metric, series", _POINTS, _DRAWN).items():
        curves.setdefault(name, []).append(of_line(series or name, line))
    sets = dict(_names(collected))
    return [ProgramGauge(name, of_name, max(sets[name] - MOST_SETS, 0)) for name, of_name in curves.items()]


def names_left_out(collected: Collected) -> list[str]:
    """Return the names of gauges that have no room."""
    return [name for name, _ in _names(collected)[MOST_NAMES:]]


def _names(collected: Collected) -> list[tuple[str, int]]:
    return [tuple(row) for row in collected.tables.rows(_NAMES)]
