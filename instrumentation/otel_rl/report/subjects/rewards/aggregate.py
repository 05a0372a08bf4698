"""Scores per reward function: the columns of trajectories, and events of scores outside of all rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.curves import Curve
from otel_rl.report.core.lines import of_cells
from otel_rl.report.core.statistics import BinnedSeries, Spread
from otel_rl.report.core.totals import MetricTotals, combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.lines import Line
    from otel_rl.store.reader import Log

METRICS = (metrics.RL_REWARD_SCORE,)
_NAMES = 200
_CELLS = 6_000
_SERIES_CELLS = 30_000
_CURVES = 8
#: Points of a curve.
_FEWEST = 3


class Rewards:
    """Scores by the name of the reward."""

    def __init__(self) -> None:
        #: By attempt, name and rank.
        self._over_steps = BinnedSeries(_SERIES_CELLS)
        self._superseded: frozenset[tuple[int, ...]] = frozenset()
        self._scores: dict[str, Spread] = {}
        self._sequence = BinnedSeries(_CELLS)
        self._count = 0
        #: Names of the scores that came outside of all rollouts.
        self.outside: set[str] = set()

    def add_log(self, log: Log) -> None:
        """Take in the columns of scores of a record of trajectories, and scores outside of all rollouts."""
        if log.event == events.RL_TRAJECTORIES.name and isinstance(log.body, dict):
            columns = (log.body.get(key) for key in (names.RL_REWARD_NAMES, names.RL_REWARD_SCORES))
            for name, scores in zip(*(column if isinstance(column, list) else () for column in columns), strict=False):
                for score in map(float_or_none, scores if isinstance(scores, list) else ()):
                    if score is not None:
                        self._add_score(str(name), score, log)
        elif log.event == events.GEN_AI_EVALUATION_RESULT.name and names.RL_ROLLOUT_ID not in log.attributes:
            name = str(log.attributes.get(names.GEN_AI_EVALUATION_NAME) or "score")
            score = float_or_none(log.attributes.get(names.GEN_AI_EVALUATION_SCORE_VALUE))
            if score is not None:
                self._add_score(name, score, log)
                if name in self._scores:
                    self.outside.add(name)
                    self._sequence.add(self._count, name, score)
                    self._count += 1

    def _add_score(self, name: str, score: float, log: Log) -> None:
        if name in self._scores or len(self._scores) < _NAMES:
            self._scores.setdefault(name, Spread()).add(score)
            step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
            if step is not None:
                self._over_steps.add(step, (log.process.attempt, name, log.process.rank), score)

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""
        self._superseded = attempts

    def over_steps(self) -> dict[tuple[str, int | None], Line]:
        """Return the scores by name and rank."""
        return {
            (name, rank): of_cells(line, self._over_steps.width)
            for (attempt, name, rank), line in self._over_steps.lines().items()
            if attempt not in self._superseded
        }

    def scores(self, totals: MetricTotals) -> dict[str, Spread]:
        """Return the scores by name; the histogram where it has more, of another process or of dropped rows say."""
        result = {str(key[0]): combined(series) for key, series in totals.by(*METRICS, names.RL_REWARD_NAME).items()}
        for name, exact in self._scores.items():
            if name not in result or exact.cell.count >= result[name].cell.count:
                result[name] = exact
        return dict(sorted(result.items()))

    def curves(self) -> list[Curve]:
        """Return scores outside of all rollouts in the order in which they came, for the rewards that have three."""
        lines = [(name, line) for name, line in self._sequence.lines().items() if len(line) >= _FEWEST]
        return [
            Curve(
                str(name),
                [float(first + 1) for first, _ in line],
                [cell.mean for _, cell in line],
                len(line),
                over_time=True,
            )
            for name, line in lines[:_CURVES]
        ]
