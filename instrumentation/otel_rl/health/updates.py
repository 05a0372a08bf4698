"""Rules on what updates do: a loss that diverges, and updates that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, above, quantity, worst
from otel_rl.health.reward_levels import is_solved
from otel_rl.health.rewards import ROUNDING_SPREAD
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

#: Inputs that are zero in a step that changes nothing; those without a trainer are of torch.
RATES, GRADIENTS = ("learning_rate", "loop_learning_rate"), ("gradient_norm", "loop_gradient_norm")
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


class _Lasting(NamedTuple):
    """Something that makes updates change nothing and has lasted for ``number`` values of ``curve``."""

    curve: InputWindow
    number: int
    level: State
    threshold: float
    #: With a place for the number of steps.
    words: str


class NoUpdate:
    """Updates that change nothing: a rate or gradient of exactly zero, or parameters without a gradient."""

    def __init__(self) -> None:
        #: What lasts -> its first step.
        self._since: dict[tuple[str, str], int] = {}

    def __call__(self, curves: Curves, limits: Limits, _: State) -> RuleReading:
        """Read the curves."""
        before, self._since = self._since, {}
        readings = [TOO_FEW]
        for name in INPUTS_OF_NO_UPDATE:
            curve, judge = curves.get(name), _OF_PARAMETERS.get(name)
            if curve is not None and curve.number >= limits["window" if judge is None else "without"]:
                lasting = _zero(curve, name, limits) if judge is None else judge(curves, curve, limits)
                is_found = lasting is not None and not (name in GRADIENTS and _has_reason(curves, limits))
                readings.append(self._reading(lasting, curves, before) if lasting and is_found else HEALTHY)
        return worst(*readings)

    def _reading(self, lasting: _Lasting, curves: Curves, before: Mapping[tuple[str, str], int]) -> RuleReading:
        curve, key = lasting.curve, (lasting.curve.key, lasting.words)
        # What is alike for longer than the window has its begin with it.
        first = curve.firsts[-lasting.number] if lasting.number <= len(curve.firsts) else curve.alike_since
        since = self._since[key] = before.get(key, first)
        steps = curves.last - since + 1

        def describe() -> Evidence:
            total = curves.last - curves.first + 1
            return Evidence(since, lasting.words.format(f"{steps} of {total} steps"))

        return RuleReading(lasting.level, curve.key, curve.values[-1], lasting.threshold, "{step}", steps, describe)


def _zero(curve: InputWindow, name: str, limits: Limits) -> _Lasting | None:
    # The usual case, and cheap.
    if curve.values[-1] or (number := curve.alike) < limits["window"]:
        return None
    is_critical = number >= limits["critical"]
    words = f"{curve.key} is exactly 0; {{}} {'changed nothing' if name in RATES else 'had no gradient'}"
    level, threshold = (State.CRITICAL, "critical") if is_critical else (State.WARNING, "window")
    return _Lasting(curve, number, level, limits[threshold], words)


def _without(curves: Curves, curve: InputWindow, limits: Limits) -> _Lasting | None:
    trainable = curves.get("trainable_parameters")
    if not curve.values[-1] or trainable is None or not trainable.values:
        return None
    total = round(trainable.values[-1])
    if (number := _in_a_row(curve, lambda share: share >= 1)) >= limits["without"]:
        whose = f"none of its {total} parameters has a gradient" if total > 1 else "its only parameter has no gradient"
        words = f"optimizer.step() has moved nothing in {{}}: {whose}"
        return _Lasting(curve, number, State.CRITICAL, limits["without"], words)
    if (number := _in_a_row(curve, lambda share: share > limits["most"])) >= limits["window"]:
        words = f"{round(curve.values[-1] * total)} of {total} parameters of the optimizer have no gradient in {{}}"
        return _Lasting(curve, number, State.WARNING, limits["window"], words)
    return None


def _unchanged(_: Curves, curve: InputWindow, limits: Limits) -> _Lasting | None:
    if (number := _in_a_row(curve, bool)) < limits["without"]:
        return None
    words = "optimizer.step() has changed no parameter in {}, and had before: something skips the update"
    return _Lasting(curve, number, State.CRITICAL, limits["without"], words)


_OF_PARAMETERS = {"without_gradient": _without, "unchanged": _unchanged}
INPUTS_OF_NO_UPDATE = (*RATES, *GRADIENTS, *_OF_PARAMETERS)


def _in_a_row(curve: InputWindow, test: Callable[[float], bool]) -> int:
    """Return how many of the latest values pass ``test``."""
    return next((number for number, value in enumerate(reversed(curve.values)) if not test(value)), len(curve.values))


def _has_reason(curves: Curves, limits: Limits) -> bool:
    """Return whether a gradient of zero is what the rewards ask for: ``no_signal`` tells of that."""
    groups, deviation = curves.get("zero_variance"), curves.get("reward_std")
    if groups is not None and groups.values:
        return groups.now(QUICK_WINDOW) >= limits["dead"]
    if deviation is not None and deviation.values:
        return deviation.now(QUICK_WINDOW) <= ROUNDING_SPREAD
    return is_solved(curves.get("reward"))
