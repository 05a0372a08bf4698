"""Rules on the KL: a divergence that explodes, and one that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, above, below, high, quantity, worst
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

_NAT = "{nat}"
#: Values whose median is judged: a single spike is no explosion, and an estimate of the KL has heavy tails.
SPIKE_WINDOW = 3
#: Values between those that are judged and those they are compared with.
JUMP_DISTANCE = 10
#: A divergence below this may be the same many times by rounding.
ROUNDED = 1e-3

_DIVERGENCES = (
    ("kl", "kl_warning", "kl_critical"),
    ("kl_update", "update_warning", "update_critical"),
    ("kl_sequence", "sequence_warning", "sequence_critical"),
)


def kl_explosion(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """P3: a divergence that stays above its threshold, or grows manyfold within a few steps."""
    readings = []
    for name, warning, critical in _DIVERGENCES:
        curve = curves.get(name)
        if curve is not None and curve.number >= SPIKE_WINDOW:
            readings.append(_divergence(curve, limits, limits[warning], limits[critical], state, name == "kl"))
    return worst(*readings)


def _divergence(
    curve: InputWindow, limits: Limits, warning: float, critical: float, state: State, may_jump: bool
) -> RuleReading:
    signed, limit = curve.now(SPIKE_WINDOW), warning
    # An estimate may be negative; one that is far below zero has gone as far.
    value = abs(signed)
    level = above(value, warning, critical, state, limits["clear_share"])
    if (
        level == State.HEALTHY
        and may_jump
        and signed >= limits["jump_floor"]
        and len(curve.values) >= JUMP_DISTANCE + SPIKE_WINDOW
    ):
        before = middle(curve.values[-JUMP_DISTANCE - SPIKE_WINDOW : -JUMP_DISTANCE])
        if value >= limits["jump"] * before:
            level, warning = State.WARNING, max(limits["jump"] * before, limits["jump_floor"])
    if level == State.HEALTHY:
        return HEALTHY

    def onset() -> int:
        # What it was before the rise: a divergence that has been there for long is not where this one began.
        earlier = [abs(before) for before in curve.values[-20:-5]]
        floor = max(limits["onset"] * warning, 3 * middle(earlier) if earlier else 0.0)
        far = min(floor, warning / 2)
        return curve.since(lambda before: abs(before) >= far)

    sign = -1 if signed < 0 else 1
    reading = high(curve, value, level, warning, critical, _NAT, onset, lambda: at_first(curve), sign)
    # A jump has a lower threshold: a higher value later on is worse all the same.
    return reading if level >= State.CRITICAL else reading._replace(weight=value / limit)


def at_first(curve: InputWindow) -> str:
    """Say what a curve was at first."""
    first = curve.start(5)
    return "" if first is None else f", {quantity(first, _NAT)} in the first steps"


def kl_estimate(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """Judge a divergence from the reference that is clearly negative, or the same to the last digit."""
    curve = curves.get("kl")
    if curve is None or curve.number < SPIKE_WINDOW:
        return TOO_FEW
    value = curve.now(SPIKE_WINDOW)
    if value <= -max(limits["negative"], limits["noise"] * curve.change):
        return _negative(curve, value, -limits["negative"])
    number = int(limits["constant"])
    if curve.number < number:
        return TOO_FEW
    value = curve.values[-1]
    # The usual case, and cheap.
    if value != curve.values[-2] or not _is_constant(curve, number):
        return HEALTHY

    def describe() -> Evidence:
        evidence = f"{curve.key} is exactly {quantity(value, _NAT)} in {curve.alike} log calls in a row"
        return Evidence(curve.alike_since, evidence)

    return RuleReading(State.WARNING, curve.key, value, number, "{step}", curve.alike, describe)


def _negative(curve: InputWindow, value: float, threshold: float) -> RuleReading:
    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(value, _NAT)}, threshold {quantity(threshold, _NAT)}{at_first(curve)}"
        return Evidence(curve.since(below(threshold / 2), gap=1), evidence)

    return RuleReading(State.WARNING, curve.key, value, threshold, _NAT, value / threshold, describe)


def _is_constant(curve: InputWindow, number: int) -> bool:
    """Return whether the latest values are the same, which neither rounding nor a missing reference explains."""
    # Trainers without a reference log zeros from the first step on.
    largest = max(abs(curve.values[-1]), curve.peak if curve.values[-1] == 0 else 0.0)
    return largest >= ROUNDED and curve.alike >= number
