"""Rules on rewards that fall well below their best level: of the training, and of the evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, below, quantity
from otel_rl.health.reward_levels import BestLevel, Fall
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits


def fall_of_evaluation(evaluation: InputWindow) -> Fall:
    """Return the best level of an evaluation, and how far the latest two are below it."""
    # A single lucky evaluation is no level.
    best = evaluation.highest()
    return Fall(best, max(evaluation.values[-2:]), evaluation.change, max(abs(best), 1e-9))


def validation_collapse(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """P6: an evaluation far below its best."""
    evaluation = curves.get("evaluation_reward")
    if evaluation is None or evaluation.number < max(limits["warm_up"], 3):
        return TOO_FEW
    fall = fall_of_evaluation(evaluation)
    middle_of_fall = below(fall.best - fall.size / 2)
    return _judged(evaluation, fall, limits, evaluation.values[-1], lambda: evaluation.since(middle_of_fall))


class RewardCollapse:
    """The reward of the training far below its best, for tens of steps."""

    def __init__(self) -> None:
        self._best = BestLevel()

    def __call__(self, curves: Curves, limits: Limits, _: State) -> RuleReading:
        """Read the curves."""
        reward, window = curves.get("reward"), limits["window"]
        if reward is None or reward.number < window:
            return TOO_FEW
        fall = self._best.fall(reward, window)
        if reward.number < 2 * window:
            return TOO_FEW
        return _judged(reward, fall, limits, fall.now, reward.began_to_fall)


def _judged(curve: InputWindow, fall: Fall, limits: Limits, now: float, onset: Callable[[], int]) -> RuleReading:
    if not fall.is_beyond(limits["fall"] * fall.scale, limits["noise"]):
        return HEALTHY
    level = State.CRITICAL if fall.size >= limits["gone"] * fall.scale else State.WARNING
    threshold = fall.best - limits["gone" if level == State.CRITICAL else "fall"] * fall.scale

    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(now)}, {quantity(fall.best)} at its best, threshold {quantity(threshold)}"
        return Evidence(onset(), evidence)

    return RuleReading(level, curve.key, now, threshold, "", fall.size / fall.scale, describe)
