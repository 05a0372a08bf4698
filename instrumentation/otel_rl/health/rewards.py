"""Rules on the reward: plateau, oscillation, hacking, and no signal to learn from."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, below, from_on, quantity, worst
from otel_rl.health.reward_falls import fall_of_evaluation
from otel_rl.health.reward_levels import LEVEL_WINDOW, is_solved
from otel_rl.health.verdict import State

if TYPE_CHECKING:
    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits

#: Latest log calls over which the policy must stand still.
STILL_WINDOW = 20
#: The latest values, whose median is cheap and is asked first.
QUICK_WINDOW = 3
#: Growth of a divergence within the window from which on the policy moves.
GROWTH_OF_MOVING_POLICY = 1.5
#: Steps with a signal from which on the run has had one.
MINIMUM_STEPS_WITH_SIGNAL = 3
#: Most runs of calls without a signal that chance alone may explain where one is a finding.
FALSE_POSITIVE_RATE = 0.01
#: Windows that are read where each step has one group.
WINDOWS_FOR_SINGLE_GROUPS = 8
#: Largest spread of rewards that is rounding.
ROUNDING_SPREAD = 1e-6


def plateau(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """P1: a reward that stands still while the policy does not move."""
    reward, window = curves.get("reward"), int(limits["window"])
    if reward is None or len(reward.values) < window:
        return TOO_FEW
    still = _still(curves, limits)
    if still is None or is_solved(reward):
        return HEALTHY
    half = window // 2
    before = sum(reward.values[-window:-half]) / (window - half)
    now = sum(reward.values[-half:]) / half
    level = max(abs(before), abs(now))
    threshold = limits["rise"] * level
    if abs(now - before) > threshold:
        return HEALTHY

    def describe() -> Evidence:
        evidence = (
            f"{reward.key} went from {quantity(before)} to {quantity(now)} within {window} log calls, "
            f"less than {quantity(limits['rise'], '%')}, and {still}"
        )
        near = max(threshold, 3 * reward.change)
        return Evidence(reward.since(lambda value: abs(value - now) <= near, gap=2), evidence)

    return RuleReading(State.WARNING, reward.key, now, threshold, "", 1.0, describe)


def _still(curves: Curves, limits: Limits) -> str | None:
    """Words for a policy that does not move; None for one that does."""
    for name, limit, unit in (("kl", "still_kl", "{nat}"), ("gradient_norm", "still_norm", "")):
        curve = curves.get(name)
        if curve is None or curve.number < STILL_WINDOW or abs(curve.now(QUICK_WINDOW)) >= limits[limit]:
            continue
        if name == "kl" and curve.peak == curve.values[-1] == 0:
            # So trainers without a reference log it.
            continue
        earlier = curve.values[-int(limits["window"]) :][:STILL_WINDOW]
        # A divergence that grows is small because the run is young.
        if abs(curve.now(STILL_WINDOW)) < limits[limit] and curve.now(STILL_WINDOW) <= GROWTH_OF_MOVING_POLICY * middle(
            earlier
        ):
            return f"{curve.key} is {quantity(curve.now(STILL_WINDOW), unit)}"
    return None


def oscillation(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """P2: a reward that swings and does not rise, while updates are clipped."""
    reward, clipped, window = curves.get("reward"), curves.get("clip_ratio"), int(limits["window"])
    if reward is None or clipped is None or min(len(reward.values), len(clipped.values)) < window:
        return TOO_FEW
    share = clipped.now(window)
    if share < limits["clip_warning"]:
        return HEALTHY
    values = reward.values[-window:]
    mean = sum(values) / window
    spread = sqrt(sum([(value - mean) ** 2 for value in values]) / window)
    half = window // 2
    rise = sum(values[half:]) / (window - half) - sum(values[:half]) / half
    deviation = curves.get("reward_std")
    # Of rewards around zero the mean is no level.
    level = max(abs(mean), deviation.now(window) if deviation is not None and deviation.values else 0.0)
    if spread < limits["swing"] * level or spread <= ROUNDING_SPREAD or rise > spread / 2:
        return HEALTHY
    state = State.CRITICAL if share >= limits["clip_critical"] else State.WARNING
    threshold = limits["clip_critical"] if state == State.CRITICAL else limits["clip_warning"]

    def describe() -> Evidence:
        evidence = (
            f"{reward.key} swings by {quantity(spread)} around {quantity(mean)}, "
            f"and {clipped.key} is {quantity(share, '%')}, threshold {quantity(threshold, '%')}"
        )
        return Evidence(clipped.since(from_on(limits["clip_warning"]), gap=2), evidence)

    return RuleReading(state, clipped.key, share, threshold, "%", share / max(threshold, 1e-9), describe)


# -- hacking -----------------------------------------------------------------------------------------------------------


def reward_hacking(curves: Curves, limits: Limits, _: State) -> RuleReading:
    """P5: rewards that part, a reward against the evaluation, a reward against the length."""
    return worst(_parting(curves, limits), _against_evaluation(curves, limits), _against_length(curves, limits))


def _change(curve: InputWindow, limits: Limits) -> float:
    """How far a curve is above its first steps (negative: below); 0 where that is within its noise."""
    baseline = limits["baseline"]
    start = curve.start(baseline)
    if start is None or curve.number < 2 * baseline:
        return 0.0
    change = curve.now(LEVEL_WINDOW) - start
    least = limits["noise"] * curve.change
    return 0.0 if -least < change < least or -ROUNDING_SPREAD < change < ROUNDING_SPREAD else change


def _rises(curve: InputWindow, limits: Limits) -> bool:
    change = _change(curve, limits)
    return change > 0 and change > limits["rise"] * abs(curve.start(limits["baseline"]) or 0.0)


def _parting(curves: Curves, limits: Limits) -> RuleReading:
    up = down = None
    most = least = 0.0
    judged = False
    for curve in curves.functions.values():
        judged = judged or curve.number >= 2 * limits["baseline"]
        change = _change(curve, limits)
        if change > most and change > limits["rise"] * abs(curve.start(limits["baseline"]) or 0.0):
            up, most = curve, change
        elif change < least and -change > limits["fall"] * abs(curve.start(limits["baseline"]) or 0.0):
            down, least = curve, change
    if up is None or down is None:
        return HEALTHY if judged else TOO_FEW
    return _parted(up, down, curves, limits)


def _parted(up: InputWindow, down: InputWindow, curves: Curves, limits: Limits) -> RuleReading:
    start, now = down.start(limits["baseline"]) or 0.0, down.now(LEVEL_WINDOW)
    lost = (start - now) / max(abs(start), 1e-9)
    # Of a penalty nothing can be gone: a small one soon has manyfold its size.
    also = _at_the_limit(curves, limits) if start > 0 and lost >= limits["gone"] else None
    threshold = start - limits["fall"] * abs(start)

    def describe() -> Evidence:
        evidence = (
            f"{down.key} fell from {quantity(start)} to {quantity(now)} while {up.key} rose from "
            f"{quantity(up.start(limits['baseline']) or 0.0)} to {quantity(up.now(LEVEL_WINDOW))}{_words(also)}"
        )
        return Evidence(down.began_to_fall(), evidence)

    level = State.CRITICAL if also is not None else State.WARNING
    return RuleReading(level, down.key, now, threshold, "", max(lost, 0.0), describe)


def _at_the_limit(curves: Curves, limits: Limits) -> InputWindow | None:
    """Return the curve that shows answers that use the whole length, or that are all alike."""
    truncated, entropy = curves.get("truncated"), curves.get("entropy")
    if truncated is not None and truncated.values and truncated.now(LEVEL_WINDOW) >= limits["cap"]:
        return truncated
    if entropy is not None and entropy.values and 0 <= entropy.now(LEVEL_WINDOW) <= limits["low_entropy"]:
        return entropy
    return None


def _words(also: InputWindow | None) -> str:
    return "" if also is None else f"; {also.key} is {quantity(also.now(LEVEL_WINDOW))}"


def _against_evaluation(curves: Curves, limits: Limits) -> RuleReading:
    reward, evaluation = curves.get("reward"), curves.get("evaluation_reward")
    if reward is None or evaluation is None or evaluation.number < LEVEL_WINDOW:
        return TOO_FEW
    if reward.number < 2 * limits["baseline"]:
        return TOO_FEW
    if not _rises(reward, limits):
        return HEALTHY
    best, _, change, _ = fall = fall_of_evaluation(evaluation)
    if fall.size < max(limits["fall"] * abs(best), limits["noise"] * change) or fall.size <= 0:
        return HEALTHY
    now, threshold = evaluation.now(2), best - limits["fall"] * abs(best)

    def describe() -> Evidence:
        evidence = (
            f"{evaluation.key} fell from {quantity(best)} to {quantity(now)} while {reward.key} rose to "
            f"{quantity(reward.now(LEVEL_WINDOW))}"
        )
        return Evidence(evaluation.since(below(best - fall.size / 2)), evidence)

    return RuleReading(State.WARNING, evaluation.key, now, threshold, "", fall.size / fall.scale, describe)


def _against_length(curves: Curves, limits: Limits) -> RuleReading:
    reward, truncated = curves.get("reward"), curves.get("truncated")
    if reward is None or truncated is None or min(reward.number, truncated.number) < 2 * limits["baseline"]:
        return TOO_FEW
    start, share = truncated.start(limits["baseline"]) or 0.0, truncated.now(LEVEL_WINDOW)
    if share < limits["cap"] or start > limits["cap"] / 2:
        return HEALTHY
    if not _rises(reward, limits):
        return HEALTHY

    def describe() -> Evidence:
        evidence = (
            f"{reward.key} rises while answers grow into the length limit: {truncated.key} is {quantity(share, '%')}, "
            f"{quantity(start, '%')} in the first steps"
        )
        return Evidence(truncated.since(from_on((start + share) / 2), gap=1), evidence)

    return RuleReading(State.WARNING, truncated.key, share, limits["cap"], "%", share, describe)


# -- signal ------------------------------------------------------------------------------------------------------------


class NoSignal:
    """Groups without a difference in reward, for many steps in a row."""

    def __init__(self) -> None:
        #: Log calls in a row without any signal, the first step of them, and those with one so far.
        self._dead, self._alive, self._since = 0, 0, -1
        #: Log calls without a signal before those.
        self._dead_before = 0
        self._counted = 0

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        for name in SIGNAL_INPUTS:
            curve = curves.get(name)
            if curve is not None:
                break
        if curve is None or not curve.values:
            return TOO_FEW
        reward = curves.get("reward")
        if curve.number != self._counted:
            # A constant mean began with its first value.
            begin = curve.firsts[-2 if name == "reward" and len(curve.firsts) > 1 else -1]
            self._count(_is_dead(name, curve, reward, limits), curve, begin)
        if curve.number < limits["window"]:
            return TOO_FEW
        if is_solved(reward):
            return HEALTHY
        if self._dead >= limits["window"] and not self._is_usual():
            return self._of_run(name, curve, reward, limits)
        return _few(curve, limits, state) if name == "zero_variance" else HEALTHY

    def _count(self, is_dead: bool, curve: InputWindow, begin: int) -> None:
        self._counted = curve.number
        if is_dead:
            self._since = self._since if self._dead else begin
            self._dead += 1
        else:
            self._dead_before += self._dead
            self._dead = 0
            self._alive += 1

    def _is_usual(self) -> bool:
        """Return whether calls without a signal are so frequent that many follow each other by chance: few groups."""
        before = self._dead_before + self._alive
        # A share of few calls is uncertain (Agresti and Coull).
        share = (self._dead_before + 2) / (before + 4)
        return self._alive >= MINIMUM_STEPS_WITH_SIGNAL and before * share**self._dead > FALSE_POSITIVE_RATE

    def _of_run(self, name: str, curve: InputWindow, reward: InputWindow | None, limits: Limits) -> RuleReading:
        lived = self._alive >= MINIMUM_STEPS_WITH_SIGNAL
        critical = limits["after_life"] if lived else limits["never"]
        level = State.CRITICAL if self._dead >= critical else State.WARNING
        threshold = critical if level == State.CRITICAL else limits["window"]

        def describe() -> Evidence:
            has_mean = reward is not None and reward is not curve and bool(reward.values)
            mean = f"; {reward.key} is {quantity(reward.values[-1])}" if reward is not None and has_mean else ""
            evidence = (
                f"{curve.key} is {quantity(curve.values[-1])}: {_NO_DIFFERENCE[name]} in "
                f"{self._dead} log calls in a row{mean}"
            )
            return Evidence(self._since, evidence)

        return RuleReading(level, curve.key, curve.values[-1], threshold, "{step}", self._dead, describe)


#: Shares that a step with one group may have.
_OF_ONE_GROUP = frozenset({0.0, 1.0})
SIGNAL_INPUTS = ("zero_variance", "reward_std", "reward")
#: What it means that the input does not vary: only one of them knows groups.
_NO_DIFFERENCE = {
    "zero_variance": "no difference in reward within any group",
    "reward_std": "no difference in reward within a batch",
    "reward": "the same mean reward",
}


def _is_dead(name: str, curve: InputWindow, reward: InputWindow | None, limits: Limits) -> bool:
    """Return whether the rewards of a step teach nothing."""
    value = curve.values[-1]
    if name == "zero_variance":
        return value >= limits["dead"]
    if name == "reward_std":
        scale = abs(reward.values[-1]) if reward is not None and reward.values else 1.0
        return value <= ROUNDING_SPREAD * max(scale, 1.0)
    # The mean of a batch that is the same to the last digit: the reward is constant.
    return len(curve.values) > 1 and value == curve.values[-2]


def has_single_groups(curve: InputWindow | None, limits: Limits) -> bool:
    """Return whether each of the latest steps had one group: most of a few steps lack a difference by chance."""
    if curve is None or not curve.values or curve.values[-1] not in _OF_ONE_GROUP:
        return False
    values = set(curve.values[-int(limits["window"]) :])
    return 1.0 in values and values <= _OF_ONE_GROUP


def _few(curve: InputWindow, limits: Limits, state: State) -> RuleReading:
    """Most groups are without a difference, though not all."""
    window = int(limits["window"])
    if has_single_groups(curve, limits):
        window *= WINDOWS_FOR_SINGLE_GROUPS
        if len(curve.values) < window:
            # What was found before may be over all the same.
            return HEALTHY if state >= State.WARNING else TOO_FEW
    values = curve.values[-window:]
    share = sum(values) / len(values)
    if share < limits["few"]:
        return HEALTHY

    def describe() -> Evidence:
        evidence = f"{curve.key} is {quantity(share, '%')}, threshold {quantity(limits['few'], '%')}"
        return Evidence(curve.since(from_on(limits["few"]), gap=1), evidence)

    return RuleReading(State.WARNING, curve.key, share, limits["few"], "%", share, describe)
