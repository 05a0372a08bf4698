"""Scalars that the trainer logged: one curve per key."""

from __future__ import annotations

import functools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import curves, kept_answers
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.curves import of_line
from otel_rl.report.core.lines import Line, over_time
from otel_rl.report.subjects.training import program_kinds
from otel_rl.report.subjects.training.program_kinds import GAUGES, OWN_LOOP
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.subjects.training.program_kinds import Card, Panel, ProgramKind
    from otel_rl.store.tables import RunTables

#: Points of all curves, keys that have some, and those of a panel.
_POINTS, _KEYS, _CURVES = 200_000, 400, 6
#: Points of which a mean is compared, and standard errors from which on a difference is one.
_FEWEST_OF_A_PART, _CLEAR = 5, 2
#: Logged by Stable-Baselines3, which numbers its log calls by it.
_TIMESTEPS = "time/total_timesteps"
#: After the key of a trainer's value, where it is of another than the main loop.
_OF_LOOP = " (loop "

_OF_KEYS = """
SELECT key, sum(number) AS number, sum(not_finite) AS not_finite, min(first) AS first,
       max(CASE WHEN is_guessed THEN time END) AS guessed
FROM logged_key WHERE number > 0 GROUP BY key ORDER BY first, key"""
_MAIN_LOOP = """
SELECT loop FROM logged_key GROUP BY loop ORDER BY max(number) DESC, min(first), loop LIMIT 1"""
#: Of the last attempt that logs; of steps that began again those since then.
_NEWEST = """
WITH latest AS (SELECT k.* FROM logged_key k JOIN process USING (process)
                WHERE start = (SELECT max(start) FROM process WHERE process IN (SELECT process FROM logged_key))),
     newest AS (SELECT logged_key, loop, key, restarts FROM latest k
                WHERE restarts = (SELECT max(restarts) FROM latest o WHERE o.loop = k.loop AND o.key = k.key))"""
_KEYS_OF_CURVES = f"""{_NEWEST}
SELECT loop, key, restarts, group_concat(logged_key) AS logged_keys FROM newest GROUP BY loop, key ORDER BY loop, key"""
_EXTENT = f"{_NEWEST} SELECT max(step) - min(step) FROM scalar JOIN newest USING (logged_key)"
_POINTS_OF_CURVE = """
SELECT step / ?1 * ?1 AS x, count(*), sum(value), min(value), max(value) FROM scalar
WHERE logged_key IN ({keys}) AND restarts = ?2 AND step >= ?3 AND value - value = 0 GROUP BY x ORDER BY x"""
_LAST_ROW = "SELECT max(rowid) FROM scalar"
#: Rows of values that are made of others are put anew each time.
_NEW = "SELECT logged_key, min(step) FROM scalar WHERE rowid > ? OR logged_key < 0 GROUP BY logged_key"
_METRICS = ", ".join(f"'{metric}'" for metric in sorted({*GAUGES, metrics.RL_TRAINER_METRIC.name}))
_SAMPLED = f"""
(SELECT CASE metric WHEN '{metrics.RL_TRAINER_METRIC.name}' THEN series ELSE metric END AS key, time, value
 FROM point WHERE metric IN ({_METRICS}))"""


@dataclass(frozen=True, slots=True)
class CurveMean:
    """Mean of a curve between two of its points, which are iterations, or seconds since the start."""

    first: float
    last: float
    mean: float
    over_time: bool = False
    counts: str = curves.STEP


@dataclass(frozen=True, slots=True)
class Trend:
    """Mean of the last values of a curve and, where there are enough, of the first ones.

    ``is_clear`` is False where they differ by no more than their noise.
    """

    curve: Curve
    last: CurveMean
    first: CurveMean | None = None
    is_clear: bool = False


@dataclass(frozen=True, slots=True)
class Scalars:
    """Curves from the trainer's log records, else from its gauges over time.

    Attributes:
        keys: keys that were logged, and what the numbers of their log calls count.
        logged: curves of the last attempt, and of steps that restarted those since then.
        gauges: curves over time.
        not_finite: how many values of a key are not finite.
        keys_left_out: keys that were too many.
    """

    keys: dict[str, str]
    logged: dict[str, Curve]
    gauges: dict[str, Curve]
    not_finite: dict[str, int]
    keys_left_out: list[str]

    @property
    def over_time(self) -> bool:
        """True when no log record came, so that the panels run over time instead of iterations."""
        return not self.keys

    def counts(self, key: str) -> str:
        """Return what the numbers of the log calls with this key count: beside guessed steps the program's own."""
        return self.keys.get(key, curves.STEP)

    def panels(self, kind: ProgramKind = OWN_LOOP) -> list[tuple[Panel, list[Curve]]]:
        """Return panels that have curves, those of the kind first: what was logged, else the gauges over time."""
        shown, used = [], set[str]()
        for panel in program_kinds.panels_of(kind):
            curves = self.logged if _matching(panel, self.logged) else self.gauges
            keys = [key for key in _matching(panel, curves) if key not in used]
            used.update(keys)
            shown.append((panel, [curves[key] for key in keys]))
        return [(panel, drawn) for panel, drawn in shown if drawn]

    def rest(self, kind: ProgramKind = OWN_LOOP) -> tuple[list[Curve], list[Curve]]:
        """Return scalars that no panel shows: the keys that change, and those with one value only."""
        return self._without_panels(kind, self.logged)

    def sampled(self, kind: ProgramKind = OWN_LOOP) -> tuple[list[Curve], list[Curve]]:
        """Return gauges over time that are neither logged nor shown by a panel, in the same two parts."""
        known = {*self.keys, *GAUGES}
        return self._without_panels(kind, {key: curve for key, curve in self.gauges.items() if key not in known})

    def _without_panels(self, kind: ProgramKind, curves: dict[str, Curve]) -> tuple[list[Curve], list[Curve]]:
        used = {curve.name for _, shown in self.panels(kind) for curve in shown}
        others = [curve for name, curve in sorted(curves.items()) if name not in used]
        changing = [other for other in others if len(set(other.y)) > 1]
        return changing, [other for other in others if len(set(other.y)) == 1]

    def trend(self, card: Card) -> Trend | None:
        """Return where the curve of a card ended, and where it began; None where it was not logged."""
        curves = self.logged if _matching(card.panel, self.logged) else self.gauges
        keys = [key for key in _matching(card.panel, curves) if not card.pattern or _is_like(key, card.pattern)]
        return _trend(curves[keys[0]]) if keys else None

    def curve(self, key: str) -> Curve | None:
        """Return the curve of a key that was logged."""
        return self.logged.get(key)


@asked_once
def of_run(collected: Collected) -> Scalars:
    """Return what was logged."""
    rows = collected.tables.rows(_OF_KEYS)
    known = {row["key"]: row for row in rows[:_KEYS]}
    # A trainer, with which the guessing ends, counts the steps of the page.
    guessed = max((row["guessed"] or 0 for row in known.values()), default=0)
    own = "timestep" if _TIMESTEPS in known else curves.LOGGED
    keys = {key: curves.STEP if row["guessed"] or row["first"] >= guessed else own for key, row in known.items()}
    return Scalars(
        keys,
        _logged(collected, keys, sum(row["number"] for row in rows)),
        {key: of_line(key, line) for (key,), line in over_time(collected.tables, "key", _SAMPLED).items()},
        {key: row["not_finite"] for key, row in known.items() if row["not_finite"]},
        [row["key"] for row in rows[_KEYS:]],
    )


def _logged(collected: Collected, keys: dict[str, str], number: int) -> dict[str, Curve]:
    tables, width = collected.tables, 1
    if number > _POINTS:
        extent = tables.value(_EXTENT) or 0
        while extent * len(keys) > _POINTS * width:
            width *= 2
    kept = collected.kept.setdefault(_LoggedLines, _LoggedLines())
    kept.look(tables)
    main, found = tables.value(_MAIN_LOOP), {}
    for row in tables.rows(_KEYS_OF_CURVES):
        loop, key = row["loop"], row["key"]
        line = kept.line(tables, (row["logged_keys"], row["restarts"], width)) if key in keys else None
        if line is not None and line.x:
            name = key if loop == main else f"{key}{_OF_LOOP}{loop or 'without a name'})"
            found[name] = of_line(name, line, counts=keys[key])
    return found


class _LoggedLines:
    """Caches the lines of logged keys; in a growing run only the new steps of each key are queried."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int, int], Line] = {}
        self._before: dict[tuple[str, int, int], Line] = {}
        self._last_row = 0
        #: First step of the new values of a logged key.
        self._new: dict[int, int] = {}

    def look(self, tables: RunTables) -> None:
        """Find the keys with new values since the last look, and drop lines that nobody used since then."""
        self._before, self._lines = self._lines, {}
        self._new = dict(map(tuple, tables.rows(_NEW, self._last_row)))
        self._last_row = tables.value(_LAST_ROW) or 0

    def line(self, tables: RunTables, source: tuple[str, int, int]) -> Line:
        """Return the line for ``source``: comma-separated logged keys, restarts, and steps per point."""
        keys, restarts, width = source
        line = self._before.get(source)
        since: int | None = kept_answers.BEGIN
        if line is None:
            line = Line(width=width)
        else:
            since = min((self._new[key] for key in map(int, keys.split(",")) if key in self._new), default=None)
        self._lines[source] = line
        if since is not None:
            first = since // width * width
            line.cut(first)
            for point in tables.rows(_POINTS_OF_CURVE.format(keys=keys), width, restarts, first):
                line.append(*point)
        return line


def _trend(curve: Curve) -> Trend:
    y = curve.y
    part = max(len(y) // 5, _FEWEST_OF_A_PART)
    if len(y) < 2 * part:
        return Trend(curve, _stretch(curve, slice(-1, None)))
    first, last = _stretch(curve, slice(part)), _stretch(curve, slice(-part, None))
    noise = math.sqrt(sum(statistics.variance(values) for values in (y[:part], y[-part:])) / part)
    return Trend(curve, last, first, is_clear=abs(last.mean - first.mean) > _CLEAR * noise)


def _stretch(curve: Curve, part: slice) -> CurveMean:
    x, y = curve.x[part], curve.y[part]
    return CurveMean(x[0], x[-1], sum(y) / len(y), curve.over_time, curve.counts)


def _matching(panel: Panel, curves: dict[str, Curve]) -> list[str]:
    if panel.gauge in curves:
        return [panel.gauge]
    keys: list[str] = []
    for pattern in panel.patterns:
        keys += [key for key in sorted(curves) if key not in keys and _is_like(key, pattern)]
    keys += [key for key in sorted(curves) if key not in keys and _has_metric(key, panel.gauge)]
    return keys[:_CURVES]


@functools.lru_cache(maxsize=65_536)
def _is_like(key: str, pattern: str) -> bool:
    return program_kinds.is_like(key.partition(_OF_LOOP)[0], pattern)


def _has_metric(key: str, metric: str) -> bool:
    return program_kinds.has_metric(key.partition(_OF_LOOP)[0], metric)
