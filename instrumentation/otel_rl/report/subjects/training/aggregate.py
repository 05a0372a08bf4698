"""Scalars that the trainer logged: one curve per key."""

from __future__ import annotations

import functools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import curves
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import of_cells, over_time
from otel_rl.report.core.statistics import BinnedSeries
from otel_rl.report.subjects.training import program_kinds
from otel_rl.report.subjects.training.program_kinds import GAUGES, OWN_LOOP
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.subjects.training.program_kinds import Card, Panel, ProgramKind
    from otel_rl.store.reader import Log

_CELLS = 60_000
_KEYS = 400
_CURVES = 6
_PLACES = 10_000
#: Points of which a mean is compared, and standard errors from which on a difference is one.
_FEWEST_OF_A_PART, _CLEAR = 5, 2
#: Logged by Stable-Baselines3, which numbers its log calls by it.
_TIMESTEPS = "time/total_timesteps"
#: After the key of a trainer's value, where it is of another than the main loop.
_OF_LOOP = " (loop "
_METRICS = ", ".join(f"'{metric}'" for metric in sorted({*GAUGES, metrics.RL_TRAINER_METRIC.name}))
_GAUGES = f"""
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


class Scalars:
    """Curves from the trainer's log records, else from its gauges over time."""

    def __init__(self) -> None:
        self.logged = BinnedSeries(_CELLS)
        self.records = 0
        #: Values that are not finite, by key.
        self.not_finite: dict[str, int] = {}
        self.keys_left_out: set[str] = set()
        #: Curves of what was logged, from the first question for them to the next record.
        self._curves: dict[str, Curve] | None = None
        #: Records by loop. Process, loop and key -> the last step, and how often the steps went back.
        self._loops: dict[str, int] = {}
        self._last: dict[tuple[str, str, str], tuple[int, int]] = {}
        #: Key -> when it was first logged, in ns since the epoch.
        self._keys: dict[str, int] = {}
        #: Keys of which the steps are guessed ones, and when such a step was last logged.
        self._guessed: set[str] = set()
        self._last_guess = 0

    def add_log(self, log: Log) -> None:
        """Take in a record of a trainer's log call; others are ignored."""
        iteration = log.attributes.get(names.RL_LOOP_ITERATION)
        if log.event != events.RL_STEP.name or not isinstance(log.body, dict) or not isinstance(iteration, int):
            return
        self.records += 1
        self._curves = None
        loop = str(log.attributes.get(names.RL_LOOP_NAME) or "")
        if loop in self._loops or len(self._loops) < _CURVES:
            self._loops[loop] = self._loops.get(loop, 0) + 1
        for key, value in log.body.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if not self._admit(key, log.time):
                continue
            if log.attributes.get(names.RL_LOOP_SOURCE) == LoopSource.GUESSED:
                self._guessed.add(key)
                self._last_guess = max(self._last_guess, log.time)
            if value - value != 0:  # NaN and the infinities
                self.not_finite[key] = self.not_finite.get(key, 0) + 1
            self.logged.add(iteration, (self._stretch(log, iteration, loop, key), loop, key), float(value))

    def _stretch(self, log: Log, iteration: int, loop: str, key: str) -> tuple[tuple[int, ...], int]:
        """Return the attempt, and how often the steps of this key went back in its process."""
        place = log.process.key, loop, key
        last, restarts = self._last.get(place, (iteration, 0))
        restarts += iteration < last
        if place in self._last or len(self._last) < _PLACES:
            self._last[place] = iteration, restarts
        return log.process.attempt, restarts

    def _admit(self, key: str, time: int) -> bool:
        if key in self._keys:
            self._keys[key] = min(self._keys[key], time)
            return True
        if len(self._keys) >= _KEYS:
            if len(self.keys_left_out) < _KEYS:
                self.keys_left_out.add(key)
            return False
        self._keys[key] = time
        return True

    @property
    def over_time(self) -> bool:
        """True when no log record came, so that the panels run over time instead of iterations."""
        return not self.records

    @property
    def keys(self) -> set[str]:
        """Keys that the trainer logged."""
        return set(self._keys)

    def counts(self, key: str) -> str:
        """Return what the numbers of the log calls with this key count: beside guessed steps the program's own.

        A trainer, with which the guessing ends, counts the steps of the page.
        """
        if key in self._guessed or self._keys.get(key, self._last_guess) >= self._last_guess:
            return curves.STEP
        return "timestep" if _TIMESTEPS in self._keys else curves.LOGGED

    def panels(self, collected: Collected, kind: ProgramKind = OWN_LOOP) -> list[tuple[Panel, list[Curve]]]:
        """Return panels that have curves, those of the kind first: what was logged, else the gauges over time."""
        logged, sampled = {} if self.over_time else self._logged(), _gauges(collected)
        shown, used = [], set[str]()
        for panel in program_kinds.panels_of(kind):
            curves = logged if _matching(panel, logged) else sampled
            keys = [key for key in _matching(panel, curves) if key not in used]
            used.update(keys)
            shown.append((panel, [curves[key] for key in keys]))
        return [(panel, drawn) for panel, drawn in shown if drawn]

    def rest(self, collected: Collected, kind: ProgramKind = OWN_LOOP) -> tuple[list[Curve], list[Curve]]:
        """Return scalars that no panel shows: the keys that change, and those with one value only."""
        return self._without_panels(collected, kind, {} if self.over_time else self._logged())

    def sampled(self, collected: Collected, kind: ProgramKind = OWN_LOOP) -> tuple[list[Curve], list[Curve]]:
        """Return gauges over time that are neither logged nor shown by a panel, in the same two parts."""
        known = self.keys | GAUGES
        return self._without_panels(
            collected, kind, {key: curve for key, curve in _gauges(collected).items() if key not in known}
        )

    def _without_panels(
        self, collected: Collected, kind: ProgramKind, curves: dict[str, Curve]
    ) -> tuple[list[Curve], list[Curve]]:
        used = {curve.name for _, shown in self.panels(collected, kind) for curve in shown}
        others = [curve for name, curve in sorted(curves.items()) if name not in used]
        return [other for other in others if len(set(other.y)) > 1], [
            other for other in others if len(set(other.y)) == 1
        ]

    def trend(self, collected: Collected, card: Card) -> Trend | None:
        """Return where the curve of a card ended, and where it began; None where it was not logged."""
        curves = {} if self.over_time else self._logged()
        if not _matching(card.panel, curves):
            curves = _gauges(collected)
        keys = [key for key in _matching(card.panel, curves) if not card.pattern or _is_like(key, card.pattern)]
        return _trend(curves[keys[0]]) if keys else None

    def curve(self, key: str) -> Curve | None:
        """Return the curve of a key that was logged."""
        return self._logged().get(key)

    def _logged(self) -> dict[str, Curve]:
        """Return the curves of the last attempt, and of steps that restarted those since then."""
        if self._curves is None:
            self._curves = self._drawn()
        return self._curves

    def _drawn(self) -> dict[str, Curve]:
        lines = self.logged.lines()
        last = max((attempt for (attempt, _), _, _ in lines), default=())
        newest: dict[tuple[str, str], int] = {}
        for (attempt, restarts), loop, key in lines:
            if attempt == last:
                newest[loop, key] = max(restarts, newest.get((loop, key), 0))
        main = max(self._loops, key=self._loops.__getitem__, default="")
        drawn = {}
        for (loop, key), restarts in newest.items():
            name = key if loop == main else f"{key}{_OF_LOOP}{loop or 'without a name'})"
            line = lines[(last, restarts), loop, key]
            drawn[name] = curves.of_line(name, of_cells(line, self.logged.width), counts=self.counts(key))
        return drawn


@asked_once
def _gauges(collected: Collected) -> dict[str, Curve]:
    lines = over_time(collected.tables, "key", _GAUGES)
    return {key: curves.of_line(key, line) for (key,), line in lines.items()}


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
