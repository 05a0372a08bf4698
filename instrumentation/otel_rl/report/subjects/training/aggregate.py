"""Scalars that the trainer logged: one curve per key, and the panels that the page shows first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core.curves import Curve
from otel_rl.report.core.statistics import BinnedSeries
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics

if TYPE_CHECKING:
    from otel_rl.report.core.statistics import Cell
    from otel_rl.store.reader import Log, Point

_CELLS = 60_000
_GAUGE_CELLS = 10_000
_KEYS = 400
_CURVES = 6
_PLACES = 10_000
#: After the key of a trainer's value, where it is of another than the main loop.
_OF_LOOP = " (loop "


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: keys that belong to it, by pattern, the most telling first, and what to look for."""

    title: str
    patterns: tuple[str, ...]
    hint: str
    gauge: str = ""


PANELS = (
    Panel(
        "Reward",
        (
            r"(train/)?reward",
            r"critic/(rewards|score)/mean",
            r".*\breward(s?/|_)mean",
            r"objective/scores",
            r"(eval|val)[/_](.*/)?reward(/mean)?",
        ),
        "should rise; flat means no signal",
        metrics.RL_ENVIRONMENT_REWARD_MEAN.name,
    ),
    Panel(
        "KL divergence",
        (r"(.*/)?(approx_|ppo_|policy_|reference_)?kl(_?loss|_?div(ergence)?)?(/mean|_avg)?",),
        "small is healthy, a jump means the policy ran off",
        metrics.RL_TRAIN_KL.name,
    ),
    Panel(
        "Entropy",
        (r"(.*/)?(policy_)?entropy(_loss|/mean|_avg)?",),
        "falls slowly; near zero means collapse",
        metrics.RL_TRAIN_ENTROPY.name,
    ),
    Panel(
        "Completion length (tokens)",
        (
            *(rf"(completions?/{part}_length|response_length/{part})" for part in ("mean", "min", "max")),
            r".*(completion|response)_length",
        ),
        "longer answers at the same reward are a warning",
        metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN.name,
    ),
    Panel(
        "Loss",
        (
            r"(train/)?loss",
            r"(.*/)?(pg|policy|policy_gradient|actor)_loss",
            r"(.*/)?(vf|value|critic)_loss",
            r"eval[/_]loss",
        ),
        "small and noisy is normal here",
        metrics.RL_TRAIN_LOSS.name,
    ),
    Panel("Gradient norm", (r"(.*/)?grad_?norm",), "spikes point at bad batches", metrics.RL_TRAIN_GRAD_NORM.name),
    Panel(
        "Reward per function",
        (r"rewards/.+/mean",),
        "which part of the reward is being learned",
    ),
    Panel(
        "Truncation and dead groups",
        (r"completions?/clipped_ratio", r"response_length/clip_ratio", r"frac_reward_zero_std"),
        "shares of samples and groups; should stay near zero",
        metrics.RL_SAMPLE_TRUNCATED_RATIO.name,
    ),
    Panel(
        "Learning rate",
        (r"(.*/)?(learning_rate|lr)",),
        "the schedule, as applied",
        metrics.RL_TRAIN_LEARNING_RATE.name,
    ),
)

_GAUGES = {panel.gauge for panel in PANELS if panel.gauge}


@dataclass(frozen=True, slots=True)
class CurveMean:
    """Mean of a curve between two of its points, which are iterations, or seconds since the start."""

    first: float
    last: float
    mean: float
    over_time: bool = False


class Scalars:
    """Curves from the trainer's log records, else from its gauges over time."""

    def __init__(self) -> None:
        self.logged = BinnedSeries(_CELLS)
        self.records = 0
        #: Values that are not finite, by key.
        self.not_finite: dict[str, int] = {}
        self.keys_left_out: set[str] = set()
        self._gauges = BinnedSeries(_GAUGE_CELLS)
        #: Records by loop. Process, loop and key -> the last step, and how often the steps went back.
        self._loops: dict[str, int] = {}
        self._last: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._keys: set[str] = set()

    def add_log(self, log: Log) -> None:
        """Take in a record of a trainer's log call; others are ignored."""
        iteration = log.attributes.get(names.RL_LOOP_ITERATION)
        if log.event != events.RL_STEP.name or not isinstance(log.body, dict) or not isinstance(iteration, int):
            return
        self.records += 1
        loop = str(log.attributes.get(names.RL_LOOP_NAME) or "")
        if loop in self._loops or len(self._loops) < _CURVES:
            self._loops[loop] = self._loops.get(loop, 0) + 1
        for key, value in log.body.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if not self._admit(key):
                continue
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

    def _admit(self, key: str) -> bool:
        if key in self._keys:
            return True
        if len(self._keys) >= _KEYS:
            if len(self.keys_left_out) < _KEYS:
                self.keys_left_out.add(key)
            return False
        self._keys.add(key)
        return True

    def add_point(self, point: Point) -> None:
        """Take in a gauge of a training value; others are ignored."""
        key = point.metric if point.metric in _GAUGES else None
        if point.metric == metrics.RL_TRAINER_METRIC.name:
            key = str(point.attributes.get(names.RL_TRAINER_METRIC_KEY))
        if key is not None:
            self._gauges.add(point.time // 1_000_000_000, key, point.value)

    @property
    def over_time(self) -> bool:
        """True when no log record came, so that the panels run over time instead of iterations."""
        return not self.records

    def panels(self) -> list[tuple[Panel, list[Curve]]]:
        """Return panels that have curves: what was logged, and where nothing was, the gauges over time."""
        logged, sampled = {} if self.over_time else self._logged(), self._sampled()
        shown = []
        for panel in PANELS:
            curves = logged if _matching(panel, logged) else sampled
            shown.append((panel, [curves[key] for key in _matching(panel, curves)]))
        return [(panel, drawn) for panel, drawn in shown if drawn]

    def rest(self) -> tuple[list[Curve], list[Curve]]:
        """Return scalars that no panel shows: the keys that change, and those with one value only."""
        return self._without_panels({} if self.over_time else self._logged())

    def sampled(self) -> tuple[list[Curve], list[Curve]]:
        """Return gauges over time that are neither logged nor shown by a panel, in the same two parts."""
        known = self._keys | _GAUGES
        return self._without_panels({key: curve for key, curve in self._sampled().items() if key not in known})

    def _without_panels(self, curves: dict[str, Curve]) -> tuple[list[Curve], list[Curve]]:
        used = {curve.name for _, shown in self.panels() for curve in shown}
        others = [curve for name, curve in sorted(curves.items()) if name not in used]
        return [other for other in others if len(set(other.y)) > 1], [
            other for other in others if len(set(other.y)) == 1
        ]

    def first_and_last(self, title: str) -> tuple[CurveMean, CurveMean] | None:
        """Return the means of the first and the last fifth of the main curve of a panel."""
        for panel, curves in self.panels():
            if panel.title == title and len(curves[0].y) > 1:
                x, y = curves[0].x, curves[0].y
                part = max(len(y) // 5, 1)
                over_time = curves[0].over_time
                return _stretch(x[:part], y[:part], over_time), _stretch(x[-part:], y[-part:], over_time)
        return None

    def _logged(self) -> dict[str, Curve]:
        """Return the curves of the last attempt, and of steps that restarted those since then."""
        lines = self.logged.lines()
        last = max((attempt for (attempt, _), _, _ in lines), default=())
        newest: dict[tuple[str, str], int] = {}
        for (attempt, restarts), loop, key in lines:
            if attempt == last:
                newest[loop, key] = max(restarts, newest.get((loop, key), 0))
        main = max(self._loops, key=self._loops.__getitem__, default="")
        curves = {}
        for (loop, key), restarts in newest.items():
            name = key if loop == main else f"{key}{_OF_LOOP}{loop or 'without a name'})"
            curves[name] = _curve(name, lines[(last, restarts), loop, key], 0)
        return curves

    def _sampled(self) -> dict[str, Curve]:
        lines = self._gauges.lines()
        start = min((line[0][0] for line in lines.values()), default=0)
        return {key: _curve(key, line, start, over_time=True) for key, line in lines.items()}


def _stretch(x: list[float], y: list[float], over_time: bool) -> CurveMean:
    return CurveMean(x[0], x[-1], sum(y) / len(y), over_time)


def _curve(key: str, line: list[tuple[int, Cell]], start: int, *, over_time: bool = False) -> Curve:
    number = sum(cell.count for _, cell in line)
    return Curve(key, [float(first - start) for first, _ in line], [cell.mean for _, cell in line], number, over_time)


def _matching(panel: Panel, curves: dict[str, Curve]) -> list[str]:
    if panel.gauge in curves:
        return [panel.gauge]
    keys: list[str] = []
    for pattern in panel.patterns:
        keys += [key for key in sorted(curves) if key not in keys and _is_like(key, pattern)]
    return keys[:_CURVES]


def _is_like(key: str, pattern: str) -> bool:
    return re.fullmatch(pattern, key.partition(_OF_LOOP)[0], re.IGNORECASE) is not None
