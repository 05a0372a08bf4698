"""The rule on step times, with the phase that explains them where phases are known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf
from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, RuleReading, above, from_on, high, quantity
from otel_rl.health.verdict import State
from otel_rl.semconv import metrics, spans

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

#: The four phases of a step by the metric that has their duration; and phases beside them.
PHASES = {
    metrics.RL_SAMPLE_DURATION.name: spans.RL_SAMPLE.type,
    metrics.RL_REWARD_DURATION.name: spans.RL_REWARD.type,
    metrics.RL_TRAIN_DURATION.name: spans.RL_TRAIN.type,
    metrics.RL_SYNC_DURATION.name: spans.RL_SYNC.type,
}
OTHER_PHASES = frozenset({spans.RL_EVALUATE.type, spans.RL_CHECKPOINT.type})
#: Parts of steps that are guessed; those of a trainer lie in its phases.
GUESSED_PARTS = frozenset(
    {spans.RL_DATA_WAIT.type, spans.RL_FORWARD.type, spans.RL_BACKWARD.type, spans.RL_OPTIMIZER.type}
)
#: Time that belongs to no step.
BETWEEN = "the time between steps"
#: Latest steps that are compared with.
REFERENCE_WINDOW = 50
#: Steps after which the reference is computed anew.
REFRESH_STEPS = 16
#: The reference follows the run, but not further than to this multiple of the lowest one, and the growth of the answers
#: since then: a slow rise adds up.
MAXIMUM_DRIFT = 1.3
#: Share of the difference from which on a phase is its cause.
CAUSE_SHARE = 0.4


class SlowStepRule:
    """P7: steps that take longer than those before; what is compared with stands still while they do."""

    def __init__(self) -> None:
        self._reference = self._lowest = self._spread = 0.0
        #: Lengths of the answers in the steps of the reference, and of the lowest one.
        self._length = self._lowest_length = 0.0
        self._phases: dict[str, float] = {}

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        curve, window = curves.get("step_time"), int(limits["window"])
        warm_up = int(limits["warm_up"])
        if curve is None or curve.number < warm_up + window + limits["reference"]:
            return TOO_FEW
        if not self._reference or (state < State.WARNING and curve.number % REFRESH_STEPS == 0):
            self._refer(curves, curve, window, warm_up)
        value, usual = curve.now(window), self._reference
        if state < State.WARNING and value < limits["warning"] * usual:
            # The usual case, and cheap: longer answers only raise what is expected.
            return HEALTHY
        expected = usual * max(self._longer(curves, curve.firsts[-window]), 1.0)
        warning, critical = limits["warning"] * expected, limits["critical"] * expected
        level = above(value, warning, critical, state, limits["clear_share"])
        if level == State.HEALTHY or (state < State.WARNING and self._is_small(curve, value, expected, limits)):
            return HEALTHY
        return high(
            curve,
            value,
            level,
            warning,
            critical,
            "s",
            lambda: curve.since(from_on((value + expected) / 2), gap=1),
            lambda: f", {quantity(usual, 's')} before{self._cause(curves, value - usual, window)}",
        )

    def _refer(self, curves: Curves, curve: InputWindow, window: int, warm_up: int) -> None:
        left_out = 0 if curve.number > len(curve.values) else warm_up
        before = curve.values[left_out:][-REFERENCE_WINDOW - window : -window]
        usual = middle(before)
        steps = curve.firsts[left_out:][-REFERENCE_WINDOW - window : -window]
        self._length = _length_from(curves, steps[0], steps[-1])
        if not self._lowest or usual < self._lowest:
            self._lowest, self._lowest_length = usual, self._length
        grown = self._length / self._lowest_length if self._lowest_length > 0 else 1.0
        self._reference = min(usual, MAXIMUM_DRIFT * self._lowest * max(grown, 1.0))
        self._spread = middle([abs(value - usual) for value in before])
        self._phases = {name: _before(phase, window) for name, phase in curves.phases.items()}

    def _is_small(self, curve: InputWindow, value: float, expected: float, limits: Limits) -> bool:
        """Return whether a difference is within the noise, or has cost little so far."""
        if value - expected < max(limits["shortest"], limits["noise"] * self._spread):
            return True
        first = curve.since(from_on((value + expected) / 2), gap=1)
        slow = [seconds for step, seconds in zip(curve.firsts, curve.values, strict=True) if step >= first]
        return sum(slow) - expected * len(slow) < limits["lost"]

    def _longer(self, curves: Curves, since: int) -> float:
        """By how much the answers have grown in the steps that are judged: longer answers take longer."""
        return _length_from(curves, since) / self._length if self._length > 0 else 1.0

    def _cause(self, curves: Curves, more: float, window: int) -> str:
        grown = [
            (phase.now(window) - self._phases.get(name, 0.0), name, phase)
            for name, phase in curves.phases.items()
            if phase.values
        ]
        if not grown or more <= 0:
            return ""
        difference, name, phase = max(grown, key=_by_size)
        if difference < CAUSE_SHARE * more:
            return ", which no phase explains"
        before = quantity(self._phases.get(name, 0.0), "s")
        return f"; {name} takes {quantity(phase.now(window), 's')} of it, {before} before"


def _by_size(grown: tuple[float, str, InputWindow]) -> float:
    return grown[0]


def _length_from(curves: Curves, first: int, last: float = inf) -> float:
    """Median length of the answers in steps ``first`` to ``last``, or the latest before; 0 where none is known."""
    length = curves.get("length")
    if length is None or not length.values:
        return 0.0
    begin, end = bisect_left(length.firsts, first), bisect_right(length.firsts, last)
    # A log call that began before may be for these steps too.
    values = length.values[begin:end] or length.values[max(end - 1, 0) : max(end, 1)]
    return middle(values)


def _before(curve: InputWindow, window: int) -> float:
    """Median of the values before the latest ones; 0 where there are none."""
    before = curve.values[-REFERENCE_WINDOW - window : -window]
    return middle(before) if before else 0.0
