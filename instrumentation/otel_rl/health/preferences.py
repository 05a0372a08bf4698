"""The rule on preference training such as DPO: whether the policy prefers the chosen answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, below, quantity, worst
from otel_rl.health.reward_levels import BestLevel
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits


class Preference:
    """An accuracy that stays at chance or falls to it, and margins that collapse."""

    def __init__(self) -> None:
        self._accuracy, self._margin = BestLevel(), BestLevel()

    def __call__(self, curves: Curves, limits: Limits, _: State) -> RuleReading:
        """Read the curves."""
        accuracy, margin = curves.get("preference_accuracy"), curves.get("preference_margin")
        return worst(
            self._falls(accuracy, limits),
            _stays(accuracy, curves, limits),
            self._collapses(margin, limits),
        )

    def _falls(self, accuracy: InputWindow | None, limits: Limits) -> RuleReading:
        window = limits["window"]
        if accuracy is None or accuracy.number < window:
            return TOO_FEW
        fall = self._accuracy.fall(accuracy, window)
        if accuracy.number < limits["settled"]:
            return TOO_FEW
        chance = limits["chance"]
        if fall.now > chance or fall.best <= chance or not fall.is_beyond(0.0, limits["noise"]):
            return HEALTHY
        return _low(accuracy, fall.now, limits, f", {quantity(fall.best)} at its best", falls=True)

    def _collapses(self, margin: InputWindow | None, limits: Limits) -> RuleReading:
        window = limits["window"]
        if margin is None or margin.number < window:
            return TOO_FEW
        fall = self._margin.fall(margin, window)
        if margin.number < limits["settled"]:
            return TOO_FEW
        if fall.best <= 0 or not fall.is_beyond(limits["fall"] * fall.best, limits["noise"]):
            return HEALTHY
        threshold = (1 - limits["fall"]) * fall.best

        def describe() -> Evidence:
            evidence = (
                f"{margin.key} is {quantity(fall.now)}, {quantity(fall.best)} at its best, "
                f"threshold {quantity(threshold)}"
            )
            return Evidence(margin.began_to_fall(), evidence)

        return RuleReading(
            State.WARNING, margin.key, fall.now, threshold, "", fall.size / max(fall.best, 1e-9), describe
        )


def _stays(accuracy: InputWindow | None, curves: Curves, limits: Limits) -> RuleReading:
    """Read an accuracy that has been at chance for long, with margins that do not grow."""
    if accuracy is None or accuracy.number < limits["settled"]:
        return TOO_FEW
    latest = accuracy.values[-2 * int(limits["window"]) :]
    mean = sum(latest) / len(latest)
    if mean > limits["chance"] or _warms_up(curves) or _grows(curves.get("preference_margin"), limits):
        return HEALTHY
    return _low(accuracy, mean, limits, f" over {len(latest)} log calls", falls=False)


def _warms_up(curves: Curves) -> bool:
    """Return whether the learning rate still rises: little is learnt yet."""
    rate = curves.get("learning_rate")
    return rate is not None and len(rate.values) > 1 and rate.values[-1] > rate.values[-2]


def _grows(margin: InputWindow | None, limits: Limits) -> bool:
    window = int(limits["window"])
    if margin is None or len(margin.values) < 2 * window:
        return False
    before, now = sum(margin.values[-2 * window : -window]) / window, sum(margin.values[-window:]) / window
    return now > 0 and now - before > limits["growth"] * margin.change


def _low(accuracy: InputWindow, value: float, limits: Limits, words: str, *, falls: bool) -> RuleReading:
    level = State.CRITICAL if value <= limits["wrong"] else State.WARNING
    threshold = limits["wrong" if level == State.CRITICAL else "chance"]

    def describe() -> Evidence:
        evidence = f"{accuracy.key} is {quantity(value)}{words}, threshold {quantity(threshold)}"
        onset = accuracy.began_to_fall() if falls else accuracy.since(below(limits["chance"]), gap=2)
        return Evidence(onset, evidence)

    return RuleReading(level, accuracy.key, value, threshold, "", 1.0 + threshold - value, describe)
