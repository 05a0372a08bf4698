"""Rules on what the policy writes: garbled and truncated answers, samples of an old policy or of another engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, below, judged, quantity, worst
from otel_rl.health.reward_levels import has_risen
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

_LENGTH = "{token}"
SPIKE_WINDOW = 3
#: Most values of the baseline.
REFERENCE_WINDOW = 40
#: Steps within which answers that are learnt do not go from half their first length to nearly nothing.
FAST_FALL_STEPS = 10
#: Share of the present value down to which the curve is followed back.
ONSET_SHARE = 0.8


def truncation(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """P9: the share of answers that are cut at the limit."""
    return _stays_high(curves, "truncated", limits, state, "%")


def staleness(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """Read how many versions the policy of the samples is behind."""
    return _stays_high(curves, "staleness", limits, state, "{version}")


def unscored(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """Read the share of samples that no reward function gave a finite score."""
    return _stays_high(curves, "unscored", limits, state, "%")


def _stays_high(curves: Curves, name: str, limits: Limits, state: State, unit: str) -> RuleReading:
    curve, window = curves.get(name), limits["window"]
    if curve is None or curve.number < window:
        return TOO_FEW
    value = curve.now(window)
    thresholds = limits["warning"], limits["critical"]
    return judged(curve, value, state, thresholds, unit, ONSET_SHARE * value, clear=limits["clear_share"])


class EngineDrift:
    """Probabilities of the engine that differ from the trainer's far more than they did; or by far too much."""

    def __init__(self) -> None:
        self._reference: float | None = None

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        window = int(limits["window"])
        curve = curves.get("logprob_difference")
        if curve is None or curve.number < window:
            return TOO_FEW
        value = curve.now(window)
        if state < State.WARNING:
            # What it was stands still while it is too high.
            before = curve.values[-REFERENCE_WINDOW - window : -window]
            self._reference = middle(before) if len(before) >= limits["reference"] else None
        usual, warning = self._reference, limits["warning"]
        if usual is not None:
            warning = min(warning, max(limits["floor"], limits["jump"] * usual))
        thresholds, clear = (warning, limits["critical"]), limits["clear_share"]
        said = "" if usual is None else f", {quantity(usual, '{nat}')} before"
        return judged(curve, value, state, thresholds, "{nat}", warning / 2, lambda: said, clear)


def garbled_output(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """P8: answers that are nearly empty, aborted, or repeat themselves."""
    return worst(
        _short(curves, limits, state),
        _share(curves, "aborted", limits, state),
        _share(curves, "repetition", limits, state),
        _repeats(curves, limits),
    )


def _is_learnt(length: InputWindow, start: float, reward: InputWindow | None) -> bool:
    """Return whether answers became short bit by bit while the reward rose: shorter ones are better."""
    return has_risen(reward) and all(value <= start / 2 for value in length.values[-FAST_FALL_STEPS:])


def _short(curves: Curves, limits: Limits, state: State) -> RuleReading:
    curve = curves.get("length")
    start = curve.start(limits["baseline"]) if curve is not None else None
    if curve is None or start is None:
        return TOO_FEW
    value, threshold = curve.now(SPIKE_WINDOW), limits["short_share"] * start
    if value > threshold:
        return HEALTHY
    if state < State.WARNING and value > limits["short"] and _is_learnt(curve, start, curves.get("reward")):
        return HEALTHY
    # Where answers were short from the start, a share of that says nothing.
    level = State.CRITICAL if value <= limits["short"] else State.WARNING

    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(value, _LENGTH)}, {quantity(start, _LENGTH)} in the first steps"
        return Evidence(curve.since(below(max(2 * threshold, value)), gap=1), evidence)

    return RuleReading(level, curve.key, value, threshold, _LENGTH, threshold / max(value, 1e-3), describe)


def _share(curves: Curves, name: str, limits: Limits, state: State) -> RuleReading:
    curve = curves.get(name)
    if curve is None or curve.number < SPIKE_WINDOW:
        return TOO_FEW
    value, warning, critical = curve.now(SPIKE_WINDOW), limits[f"{name}_warning"], limits[f"{name}_critical"]
    return judged(curve, value, state, (warning, critical), "%", warning / 2)


def _repeats(curves: Curves, limits: Limits) -> RuleReading:
    """Read the entropy of answers without an end: the next token is nearly certain."""
    entropy, truncated = curves.get("entropy"), curves.get("truncated")
    if entropy is None or truncated is None or min(entropy.number, truncated.number) < SPIKE_WINDOW:
        return TOO_FEW
    value, cut = entropy.now(SPIKE_WINDOW), truncated.now(SPIKE_WINDOW)
    if not 0 <= value <= limits["flat_entropy"] or cut < limits["cap"]:
        return HEALTHY

    def describe() -> Evidence:
        evidence = (
            f"{quantity(cut, '%')} of the answers reach the limit at an {entropy.key} of {quantity(value, '{nat}')}: "
            "they repeat the same tokens"
        )
        return Evidence(entropy.since(below(max(limits["flat_entropy"], value)), gap=1), evidence)

    return RuleReading(State.WARNING, entropy.key, value, limits["flat_entropy"], "{nat}", 1.0, describe)
