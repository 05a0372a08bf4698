"""Scores per reward function, from histograms, evaluation events and the spans of the functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.curves import Curve
from otel_rl.report.core.over_time import OverTime
from otel_rl.report.core.statistics import BinnedSeries, Spread
from otel_rl.report.core.totals import MetricTotals, combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.store.reader import Log, Span

METRICS = (metrics.RL_REWARD_SCORE,)
_NAMES = 200
_CELLS = 6_000
_SERIES_CELLS = 30_000
_CURVES = 8
_TRACES = 100_000


class Rewards:
    """Scores and durations by the name of the reward."""

    def __init__(self) -> None:
        self.seconds: dict[str, Spread] = {}
        #: Seconds of a call of a function, and scores, by (name, rank).
        self.functions, self.scores_over_time = OverTime(_SERIES_CELLS), OverTime(_SERIES_CELLS)
        self._evaluations: dict[str, Spread] = {}
        #: Last score by trace, of a bounded number of traces.
        self.by_trace: dict[str, float] = {}
        self._sequence = BinnedSeries(_CELLS)
        self._count = 0

    def add_span(self, span: Span) -> None:
        """Take in the span of a reward function; others are ignored."""
        name = span.attributes.get(names.RL_REWARD_NAME)
        if name is not None and (str(name) in self.seconds or len(self.seconds) < _NAMES):
            self.seconds.setdefault(str(name), Spread()).add(span.seconds)
            self._add(self.functions, str(name), span, span.end, span.seconds)

    def add_log(self, log: Log) -> None:
        """Take in an evaluation result; others are ignored."""
        if log.event != events.GEN_AI_EVALUATION_RESULT.name or names.RL_TRAJECTORY_REASON in log.attributes:
            # Some samples of a trainer's batch, chosen by their scores: all are in the histogram.
            return
        name = str(log.attributes.get(names.GEN_AI_EVALUATION_NAME) or "score")
        score = log.attributes.get(names.GEN_AI_EVALUATION_SCORE_VALUE)
        if not isinstance(score, (int, float)) or (name not in self._evaluations and len(self._evaluations) >= _NAMES):
            return
        self._evaluations.setdefault(name, Spread()).add(float(score))
        self._sequence.add(self._count, name, float(score))
        self._add(self.scores_over_time, name, log, log.time, float(score))
        if log.trace_id and (log.trace_id in self.by_trace or len(self.by_trace) < _TRACES):
            self.by_trace[log.trace_id] = float(score)
        self._count += 1

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""
        self.functions.leave_out(attempts)
        self.scores_over_time.leave_out(attempts)

    def _add(self, series: OverTime, name: str, record: Span | Log, time: int, value: float) -> None:
        process = record.process
        series.add((name, process.rank), _iteration(record), time, value, process.attempt)

    def scores(self, totals: MetricTotals, of_samples: Mapping[str, Spread]) -> dict[str, Spread]:
        """Scores by name, from what counted most: events, rows of samples, histograms; of equal ones the exact."""
        result = {str(key[0]): combined(series) for key, series in totals.by(*METRICS, names.RL_REWARD_NAME).items()}
        for exact in (of_samples, self._evaluations):
            for name, spread in exact.items():
                if name not in result or spread.cell.count >= result[name].cell.count:
                    result[name] = spread
        return dict(sorted(result.items()))

    def curves(self) -> list[Curve]:
        """Scores of evaluation events in the order in which they came, for the rewards that have several."""
        lines = [(name, line) for name, line in self._sequence.lines().items() if len(line) > 1]
        return [
            Curve(str(name), [float(first + 1) for first, _ in line], [cell.mean for _, cell in line], len(line))
            for name, line in lines[:_CURVES]
        ]


def _iteration(record: Span | Log) -> int | None:
    value = record.attributes.get(names.RL_LOOP_ITERATION)
    return value if isinstance(value, int) else None
