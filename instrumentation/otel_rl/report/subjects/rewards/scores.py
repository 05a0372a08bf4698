"""Scores per reward function: those of samples, and those outside of all rollouts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.curves import Curve
from otel_rl.report.core.lines import of_rows
from otel_rl.report.core.statistics import Spread, spreads
from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.lines import Line

METRICS = (metrics.RL_REWARD_SCORE,)
#: Functions that are told apart, curves that are drawn, and the fewest and most points of one.
_NAMES, _CURVES, _FEWEST, _POINTS = 200, 8, 3, 6000
_FINITE = "kind = 'score' AND abs(value) < 9e999"
_SPREADS = f"""
WITH known AS (SELECT name FROM score WHERE {_FINITE} GROUP BY name ORDER BY count(*) DESC LIMIT {_NAMES})
SELECT name, bucket(value), count(*), sum(value), min(value), max(value) FROM score
WHERE {_FINITE} AND name IN known GROUP BY 1, 2"""
_OVER_STEPS = f"""
SELECT name, rank, step, NULL, count(*), sum(value), min(value), max(value) FROM scores
WHERE {_FINITE} AND step IS NOT NULL GROUP BY name, rank, step ORDER BY name, rank, step"""
_OUTSIDE = f"FROM score WHERE sample IS NULL AND {_FINITE}"
_NAMED_OUTSIDE = f"SELECT DISTINCT name {_OUTSIDE} ORDER BY name"
_IN_ORDER = f"""
SELECT name, min(place) AS place, avg(value) AS value, count(*) AS number
FROM (SELECT name, value, row_number() OVER (ORDER BY time, rowid) AS place {_OUTSIDE})
GROUP BY name, place / ? ORDER BY name, 2"""


@asked_once
def by_name(collected: Collected) -> dict[str, Spread]:
    """Return the scores by name; the histogram where it has more, of another process or of dropped rows say."""
    series = collected.totals.by(*METRICS, names.RL_REWARD_NAME)
    result = {str(key[0]): combined(of_name) for key, of_name in series.items()}
    for (name,), exact in spreads(collected.tables.stream(_SPREADS)).items():
        if name not in result or exact.cell.count >= result[name].cell.count:
            result[name] = exact
    return dict(sorted(result.items()))


def over_steps(collected: Collected) -> dict[tuple[str, int | None], Line]:
    """Return the scores by name and rank."""
    return of_rows(collected.tables.stream(_OVER_STEPS)) if collected.only is None else {}


@asked_once
def outside(collected: Collected) -> list[str]:
    """Return the names of the scores that came outside of all rollouts."""
    return [row["name"] for row in collected.tables.stream(_NAMED_OUTSIDE)]


def in_order(collected: Collected) -> list[Curve]:
    """Return scores outside of all rollouts in the order in which they came, for the rewards that have three."""
    number = collected.tables.value(f"SELECT count(*) {_OUTSIDE}")
    curves = []
    for name, rows in groupby(collected.tables.stream(_IN_ORDER, number // _POINTS + 1), lambda row: row["name"]):
        points = list(rows)
        if len(points) >= _FEWEST:
            x, y = [float(point["place"]) for point in points], [point["value"] for point in points]
            curves.append(Curve(str(name), x, y, sum(point["number"] for point in points), over_time=True))
    return sorted(curves, key=lambda curve: curve.x[0])[:_CURVES]
