"""Rules on what updates do: a loss that diverges, and updates that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, above, quantity, worst
from otel_rl.health.reward_levels import is_solved
from otel_rl.health.rewards import ROUNDING_SPREAD
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

#: Values that a loss is compared with, and those between them and the judged ones: a rise must not be among them yet.
REFERENCE_WINDOW, GAP = 50, 5
#: Values after which the reference is computed anew.
REFRESH_CALLS = 8
#: Share of the values that the range has.
RANGE_SHARE = 0.9
#: A loss that is far from zero for its range may not rise bit by bit: its reference stays below so much of its lowest.
CLEAR_OF_ZERO, MAXIMUM_DRIFT = 2.0, 2.0
#: Multiple of its range at which a loss has left it.
OUT_OF_RANGE = 3
#: Values of guessed steps that show a zero that lasts.
FEWEST_GUESSED = 5
#: Latest values that show whether the rewards differ.
QUICK_WINDOW = 3


def needed_for_loss(limits: Limits) -> float:
    """Return the fewest values with which a loss is judged."""
    return limits["reference"] + limits["window"] + GAP


class LossDivergence:
    """A loss that has left its range manyfold, for several steps; the range stands still while it has."""

    def __init__(self) -> None:
        #: The usual loss, and its range; both together without a sign, and the lowest such.
        self._level = self._reach = self._size = 0.0
        self._lowest = float("inf")
        #: How many values there were at the last reference.
        self._referred = 0

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        curve, window = curves.get("loss"), int(limits["window"])
        if curve is None or curve.number < needed_for_loss(limits):
            return TOO_FEW
        if not self._referred or (state < State.WARNING and curve.number >= self._referred + REFRESH_CALLS):
            self._referred = curve.number
            self._refer(curve.values[-REFERENCE_WINDOW - window - GAP : -window - GAP])
        value, usual = curve.now(window), self._level
        least = max(limits["floor"], limits["start_share"] * abs(curve.start(window) or 0.0))
        warning, critical = max(limits["warning"] * self._size, least), max(limits["critical"] * self._size, least)
        level = above(abs(value - usual), warning, critical, state, limits["clear_share"])
        if level == State.HEALTHY:
            return HEALTHY
        distance = critical if level == State.CRITICAL else warning
        threshold = usual + (distance if value > usual else -distance)
        left = min(warning / 2, max(OUT_OF_RANGE * self._reach, warning / 8))

        def describe() -> Evidence:
            onset = curve.since(lambda loss: abs(loss - usual) >= left, gap=1)
            evidence = f"{curve.key} is {quantity(value)}, threshold {quantity(threshold)}, {quantity(usual)} before"
            return Evidence(onset, evidence)

        return RuleReading(level, curve.key, value, threshold, "", abs(value - usual) / distance, describe)

    def _refer(self, before: Sequence[float]) -> None:
        level = middle(before)
        reach = sorted([abs(loss - level) for loss in before])[int(RANGE_SHARE * (len(before) - 1))]
        self._level, self._reach, self._size = level, reach, abs(level) + reach
        if level > CLEAR_OF_ZERO * reach:
            self._lowest = min(self._lowest, self._size)
            self._size = min(self._size, MAXIMUM_DRIFT * self._lowest)
            self._level = min(level, self._size)


def no_update(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """Judge a learning rate, or a norm of the gradient, that is exactly zero for many log calls in a row."""
    guessed = (_zero_in_guessed(curves.get(f"guessed_{name}"), limits) for name in ("learning_rate", "gradient_norm"))
    return worst(
        _zero(curves.get("learning_rate"), limits),
        HEALTHY if _has_reason(curves, limits) else _zero(curves.get("gradient_norm"), limits),
        *guessed,
    )


def _zero_in_guessed(curve: InputWindow | None, limits: Limits) -> RuleReading:
    """Judge a value of guessed steps, of which some were read; another part of the program may train meanwhile."""
    if curve is None or curve.number < FEWEST_GUESSED:
        return TOO_FEW
    steps = curve.last - curve.alike_since + 1
    if curve.values[-1] or curve.alike < FEWEST_GUESSED or steps < limits["window"]:
        return HEALTHY

    def describe() -> Evidence:
        return Evidence(curve.alike_since, f"{curve.key} is exactly 0 in {steps} steps, each time it was read")

    return RuleReading(State.WARNING, curve.key, 0.0, limits["window"], "{step}", steps, describe)


def _zero(curve: InputWindow | None, limits: Limits) -> RuleReading:
    window = int(limits["window"])
    if curve is None or curve.number < window:
        return TOO_FEW
    # The usual case, and cheap.
    if curve.values[-1] or (number := curve.alike) < window:
        return HEALTHY
    level = State.CRITICAL if number >= limits["critical"] else State.WARNING
    threshold = limits["critical"] if level == State.CRITICAL else window

    def describe() -> Evidence:
        return Evidence(curve.alike_since, f"{curve.key} is exactly 0 in {number} log calls in a row")

    return RuleReading(level, curve.key, 0.0, threshold, "{step}", number, describe)


def _has_reason(curves: Curves, limits: Limits) -> bool:
    """Return whether a gradient of zero is what the rewards ask for: ``no_signal`` tells of that."""
    gradient = curves.get("gradient_norm")
    if gradient is None or gradient.number < limits["window"] or gradient.values[-1]:
        return False
    groups, deviation = curves.get("zero_variance"), curves.get("reward_std")
    if groups is not None and groups.values:
        return groups.now(QUICK_WINDOW) >= limits["dead"]
    if deviation is not None and deviation.values:
        return deviation.now(QUICK_WINDOW) <= ROUNDING_SPREAD
    return is_solved(curves.get("reward"))
