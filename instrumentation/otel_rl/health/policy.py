"""Rules on the policy and its optimizer: entropy, learning rate, gradient norm, values that are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.health.curves import KEPT, middle
from otel_rl.health.divergence import SPIKE_WINDOW, at_first
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, below, from_on, high, judged, quantity
from otel_rl.health.reward_levels import is_solved
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow, NotFiniteValue
    from otel_rl.health.reading import Limits

_NAT = "{nat}"
#: Values whose median is judged.
ENTROPY_WINDOW = 5
#: Latest log calls that are searched for values that are not finite; so many in a row are a warning, more are critical.
NOT_FINITE_WINDOW, NOT_FINITE_PAIR = 10, 2
#: First steps in which loss scaling looks for its scale.
SCALING_STEPS = 20
#: Steps from a quarter to the threshold within which a fall of the entropy is one; a healthy one takes hundreds.
FAST_FALL_STEPS = 10
ZERO_GRADIENT = 1e-12
REFERENCE_WINDOW = 50


def entropy_collapse(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """P4: an entropy near zero, and far below that of the first steps."""
    curve = curves.get("entropy")
    if curve is None or curve.number < SPIKE_WINDOW:
        return TOO_FEW
    value = curve.now(SPIKE_WINDOW)
    if value < 0:
        # A loss with the entropy in it: not an entropy.
        return TOO_FEW
    stay = limits["clear_share"] if state >= State.WARNING else 1.0
    start = curve.start(limits["baseline"])
    warning = critical = limits["gone"]
    if start is not None:
        warning = max(min(limits["warning"], limits["warning_share"] * start), limits["gone"])
        critical = max(min(limits["critical"], limits["critical_share"] * start), limits["gone"])
    if value > warning * stay:
        return HEALTHY
    if value > limits["gone"] * stay and is_solved(curves.get("reward")) and not _fell_fast(curve, warning, start):
        # A task that is solved leaves little to choose between, bit by bit.
        return HEALTHY
    is_critical = value <= (critical * stay if state >= State.CRITICAL else critical)
    threshold = critical if is_critical else warning

    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(value, _NAT)}, threshold {quantity(threshold, _NAT)}{at_first(curve)}"
        return Evidence(_beginning(curve, warning * stay, start), evidence)

    level = State.CRITICAL if is_critical else State.WARNING
    return RuleReading(level, curve.key, value, threshold, _NAT, threshold / max(value, 1e-9), describe)


def _beginning(curve: InputWindow, threshold: float, start: float | None) -> int:
    """Return the step at which the entropy passed the threshold, or at which a fast fall began."""
    passed, fell = _fall(curve, threshold, start)
    return fell if passed - fell <= FAST_FALL_STEPS else passed


def _fall(curve: InputWindow, threshold: float, start: float | None) -> tuple[int, int]:
    """Return the steps at which the entropy passed the threshold, and before that a quarter of its start."""
    quarter = max(threshold, (start or 0.0) / 4)
    return curve.since(below(threshold), gap=1), curve.since(below(quarter), gap=1)


def _fell_fast(curve: InputWindow, threshold: float, start: float | None) -> bool:
    """Return whether an entropy that is below the threshold took few steps from a quarter of its start to there."""
    if start is None or start / 4 <= threshold:
        return False
    passed, fell = _fall(curve, threshold, start)
    return passed - fell <= FAST_FALL_STEPS


def entropy_explosion(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """Judge an entropy that is manyfold of that of the first steps: nearly any token will do."""
    curve = curves.get("entropy")
    start = curve.start(limits["baseline"]) if curve is not None else None
    # More than any vocabulary has is a sum over an answer, and what is negative belongs to a loss.
    if curve is None or start is None or not 0 < start < limits["highest"]:
        return TOO_FEW
    value = curve.now(ENTROPY_WINDOW)
    warning = max(limits["warning"], limits["warning_growth"] * start)
    critical = max(limits["critical"], limits["critical_growth"] * start)
    half, clear = (start + warning) / 2, limits["clear_share"]
    return judged(curve, value, state, (warning, critical), _NAT, half, lambda: at_first(curve), clear)


class LearningRate:
    """Too high, or far above what it was; critical once the policy suffers."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._since_rise = 0
        #: The peak that it has jumped away from.
        self._before: float | None = None

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        curve = curves.get("learning_rate")
        if curve is None or not curve.values:
            return TOO_FEW
        value = curve.values[-1]
        self._follow(value, limits)
        warning = limits["warning"]
        if self._before is not None:
            warning = min(warning, limits["jump"] * self._before)
        if value < warning:
            return HEALTHY
        hurt = _hurt(curves, limits)
        level = State.CRITICAL if hurt is not None else State.WARNING
        return high(
            curve,
            value,
            level,
            warning,
            warning,
            "",
            lambda: curve.since(from_on(warning)),
            lambda: "" if hurt is None else f"; {hurt.key} is {quantity(hurt.now(SPIKE_WINDOW), _NAT)}{at_first(hurt)}",
        )

    def _follow(self, value: float, limits: Limits) -> None:
        if self._before is not None and value < limits["jump"] * self._before:
            self._before = None
        if value > self._peak:
            if self._peak > 0 and self._since_rise >= limits["settled"] and value >= limits["jump"] * self._peak:
                self._before = self._peak
            self._peak, self._since_rise = value, 0
        else:
            self._since_rise += 1


def _hurt(curves: Curves, limits: Limits) -> InputWindow | None:
    """Return the curve that shows that the policy suffers."""
    kl, entropy = curves.get("kl"), curves.get("entropy")
    if kl is not None and kl.number >= SPIKE_WINDOW and kl.now(SPIKE_WINDOW) >= limits["hurt_kl"]:
        return kl
    # An entropy near zero is what supervised training aims at.
    if entropy is not None and curves.has("reward"):
        start = entropy.start(5)
        if start is not None and 0 <= entropy.now(SPIKE_WINDOW) <= limits["hurt_entropy"] * start:
            return entropy
    return None


class GradientNorm:
    """Manyfold of what it was; what it was stands still while it is too high."""

    def __init__(self) -> None:
        self._reference = 0.0

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        window = int(limits["window"])
        curve = curves.get("gradient_norm")
        if curve is None or curve.number < window + limits["reference"]:
            return TOO_FEW
        value = curve.now(window)
        if value < limits["floor"] * limits["clear_share"] and state < State.WARNING:
            # The usual case, and cheap.
            return HEALTHY
        if state < State.WARNING or not self._reference:
            before = [norm for norm in curve.values[-REFERENCE_WINDOW - window : -window] if norm > ZERO_GRADIENT]
            if len(before) < limits["reference"]:
                return TOO_FEW
            self._reference = middle(before)
        warning = max(limits["floor"], limits["warning"] * self._reference)
        critical = max(limits["floor"], limits["critical"] * self._reference)
        usual, thresholds, clear = self._reference, (warning, critical), limits["clear_share"]
        return judged(curve, value, state, thresholds, "", warning / 2, lambda: f", {quantity(usual)} before", clear)


class _NotFiniteCall(NamedTuple):
    """A log call with a value that is not finite."""

    value: NotFiniteValue
    #: Loss scaling may explain it.
    is_excused: bool
    #: Steps of the call that surely have such a value.
    steps: int


class NotFinite:
    """Values that are NaN or infinite, in the latest log calls."""

    def __init__(self) -> None:
        #: The last steps of the latest log calls, and how many steps they and those before cover.
        self._calls: list[int] = []
        self._covered = 0
        #: The latest of them with such a value; how many log calls there have been, and with such a value.
        self._found: list[_NotFiniteCall] = []
        self._number = self._number_found = 0

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        if not self._calls or self._calls[-1] != curves.last:
            self._calls.append(curves.last)
            self._number += 1
            self._covered += curves.covered
            del self._calls[:-NOT_FINITE_WINDOW]
        if curves.not_finite and curves.not_finite[-1].last == curves.last:
            self._find(curves.not_finite[-1], curves)
        if not self._found:
            return HEALTHY
        late = [call for call in self._found if call.value.last >= self._calls[0]]
        allowed = self._allowed(limits)
        bad = max(sum(call.steps for call in late), self._in_a_row(allowed))
        number = bad - (min(bad, allowed) if all(call.is_excused for call in late) else 0)
        if not late or number < limits["warning"]:
            return HEALTHY
        level = State.CRITICAL if number >= limits["critical"] else State.WARNING
        threshold = limits["critical"] if level == State.CRITICAL else limits["warning"]
        value = late[-1].value
        found, number = self._number_found, self._number
        since = self._since()

        def describe() -> Evidence:
            evidence = (
                f"{value.key} is not a finite number in {found} of {number} log calls, the last at step {value.last}"
            )
            return Evidence(since, evidence)

        return RuleReading(level, value.key, bad, threshold, "{step}", max(bad, found), describe)

    def _allowed(self, limits: Limits) -> int:
        """Return how many steps loss scaling may explain: it begins high, and halves with each overflow."""
        scaling = int(limits["scaling"])
        return scaling if self._covered > SCALING_STEPS else max(scaling, NOT_FINITE_WINDOW // 2)

    def _find(self, value: NotFiniteValue, curves: Curves) -> None:
        if self._found and self._found[-1].value.last == value.last:
            del self._found[-1]
            self._number_found -= 1
        self._number_found += 1
        is_zero = value.is_nan and value.only_gradient and _is_filtered(value, curves)
        # One step of many was looked at, and scaling overflows in one of thousands.
        is_sampled = value.is_nan and value.covered >= NOT_FINITE_WINDOW and self._covered > SCALING_STEPS
        is_excused = value.only_gradient and not (is_zero or is_sampled)
        self._found.append(_NotFiniteCall(value, is_excused, value.covered if is_zero else 1))
        del self._found[:-KEPT]

    def _in_a_row(self, allowed: int) -> int:
        """Return how many steps up to the present one have had no value that is a number."""
        row: list[NotFiniteValue] = []
        for step, call in zip(reversed(self._calls), reversed(self._found), strict=False):
            if call.value.last != step or not call.value.is_nan:
                break
            row.append(call.value)
        # Of the first of these calls the last step is known.
        steps = sum(value.covered for value in row[:-1]) + 1
        if len(row) <= NOT_FINITE_PAIR:
            return min(steps, allowed + 1) if row else 0
        return steps

    def _since(self) -> int:
        """Return the first step of those calls that follow each other within the window."""
        spread = max(self._calls[-1] - self._calls[0], 1)
        earliest = self._found[-1].value
        for call in reversed(self._found):
            if earliest.last - call.value.last > spread:
                break
            earliest = call.value
        return earliest.first


def _is_filtered(value: NotFiniteValue, curves: Curves) -> bool:
    """Return whether the loss is the exact zero that Transformers writes for one that is no number.

    https://github.com/huggingface/transformers/blob/main/src/transformers/trainer.py (``logging_nan_inf_filter``)
    """
    loss = curves.get("loss")
    # With rewards it is zero where all advantages are.
    is_zero = loss is not None and loss.last == value.last and bool(loss.values) and loss.values[-1] == 0
    return is_zero and not curves.has("reward")
