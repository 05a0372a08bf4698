"""What a rule reads from the curves at one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.health.curves import Curves, InputWindow

    Limits = Mapping[str, float]


class Evidence(NamedTuple):
    """The step at which the evidence began, and the evidence in one sentence."""

    onset: int
    evidence: str


class RuleReading(NamedTuple):
    """The level of a rule at one step, with what is wrong where something is."""

    level: State
    metric: str = ""
    value: float = 0.0
    threshold: float = 0.0
    unit: str = ""
    #: How bad the value is, to keep the reading that is worst.
    weight: float = 0.0
    #: Onset and evidence; asked for before the next value comes, and only where they are needed.
    describe: Callable[[], Evidence] = lambda: Evidence(-1, "")


#: Nothing found; and not enough values to judge by.
HEALTHY, TOO_FEW = RuleReading(State.HEALTHY), RuleReading(State.UNOBSERVED)


class Judge(Protocol):
    """A rule; it is asked when one of its inputs has a new value. ``state`` is the present one, for hysteresis."""

    def __call__(self, curves: Curves, limits: Limits, state: State, /) -> RuleReading:
        """Read the curves."""


def above(value: float, warning: float, critical: float, state: State, clear: float = 1.0) -> State:
    """Return the level of a value that should be low; a state falls below the share ``clear`` of its threshold."""
    if state >= State.WARNING:
        critical = critical * clear if state >= State.CRITICAL else critical
        warning *= clear
    if value >= critical:
        return State.CRITICAL
    return State.WARNING if value >= warning else State.HEALTHY


def high(
    curve: InputWindow,
    value: float,
    level: State,
    warning: float,
    critical: float,
    unit: str,
    onset: Callable[[], int],
    words: Callable[[], str] = str,
    sign: int = 1,
) -> RuleReading:
    """Return a reading of a value that should be low; ``words`` are added to the evidence.

    ``sign`` is -1 for one that should not be far below zero: ``value`` and thresholds are without their signs.
    """
    threshold = critical if level >= State.CRITICAL else warning
    weight = value / threshold if threshold > 0 else value
    value, threshold = sign * value, sign * threshold

    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(value, unit)}, threshold {quantity(threshold, unit)}{words()}"
        return Evidence(onset(), evidence)

    return RuleReading(level, curve.key, value, threshold, unit, weight, describe)


def judged(
    curve: InputWindow,
    value: float,
    state: State,
    thresholds: tuple[float, float],
    unit: str,
    left: float,
    words: Callable[[], str] = str,
    clear: float = 1.0,
) -> RuleReading:
    """Judge a value that should be low by its warning and critical thresholds; it has begun where it left ``left``."""
    level = above(value, *thresholds, state, clear)
    if level == State.HEALTHY:
        return HEALTHY
    return high(curve, value, level, *thresholds, unit, lambda: curve.since(from_on(left), gap=1), words)


def worst(*readings: RuleReading) -> RuleReading:
    """Return the reading with the highest level; too few values only where nothing else was read."""
    highest = TOO_FEW
    for reading in readings:
        if reading.level > highest.level or (reading.level == highest.level and reading.weight > highest.weight):
            highest = reading
    return highest


#: Units of the registry that are words of their own; others are not said.
_SPOKEN = {"{nat}": " nat", "s": " s", "{token}": " tokens", "{version}": " versions", "{step}": " steps"}


def quantity(value: float, unit: str = "") -> str:
    """Format a number for a reader: three digits that count, shares in percent."""
    if unit == "%":
        return f"{value:.0%}"
    return f"{value:.3g}{_SPOKEN.get(unit, '')}"


def below(limit: float) -> Callable[[float], bool]:
    """Return a test for values up to ``limit``."""
    return lambda value: value <= limit


def from_on(limit: float) -> Callable[[float], bool]:
    """Return a test for values from ``limit`` on."""
    return lambda value: value >= limit
