"""How many values of its inputs a rule needs before it judges, and how many it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.health import output, rewards, updates
from otel_rl.health.curves import FIRST, FUNCTIONS
from otel_rl.health.divergence import SPIKE_WINDOW
from otel_rl.health.reward_levels import LEVEL_WINDOW
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.health.curves import Curves
    from otel_rl.health.reading import Limits
    from otel_rl.health.rule_definitions import Rule


class Points(NamedTuple):
    """The values that a rule has, and those that it needs: of the input that lacks most."""

    observed: int
    needed: int


def _baseline(limits: Limits) -> int:
    return min(int(limits["baseline"]), FIRST)


#: Code -> input -> fewest values with which the rule judges; an input that is not named needs one.
_NEEDED: Mapping[str, Callable[[Limits], Mapping[str, float]]] = {
    Code.P1_PLATEAU: lambda limits: {"reward": limits["window"]},
    Code.P2_OSCILLATION: lambda limits: dict.fromkeys(("reward", "clip_ratio"), limits["window"]),
    Code.P3_KL_EXPLOSION: lambda _: dict.fromkeys(("kl", "kl_update", "kl_sequence"), SPIKE_WINDOW),
    Code.P4_ENTROPY_COLLAPSE: lambda _: {"entropy": SPIKE_WINDOW},
    Code.P5_REWARD_HACKING: lambda limits: {
        **dict.fromkeys((FUNCTIONS, "reward", "truncated"), 2 * limits["baseline"]),
        "evaluation_reward": LEVEL_WINDOW,
    },
    Code.P6_VALIDATION_COLLAPSE: lambda limits: {"evaluation_reward": max(limits["warm_up"], 3)},
    Code.P7_SLOW_STEP: lambda limits: {"step_time": limits["warm_up"] + limits["window"] + limits["reference"]},
    Code.P8_GARBLED_OUTPUT: lambda limits: {
        **dict.fromkeys(("aborted", "repetition", "entropy", "truncated"), output.SPIKE_WINDOW),
        "length": _baseline(limits),
    },
    Code.P9_TRUNCATION: lambda limits: {"truncated": limits["window"]},
    Code.NO_SIGNAL: lambda limits: dict.fromkeys(rewards.SIGNAL_INPUTS, limits["window"]),
    Code.GRADIENT_NORM: lambda limits: {"gradient_norm": limits["window"] + limits["reference"]},
    Code.STALENESS: lambda limits: {"staleness": limits["window"]},
    Code.ENGINE_DRIFT: lambda limits: {"logprob_difference": limits["window"]},
    Code.REWARD_COLLAPSE: lambda limits: {"reward": 2 * limits["window"]},
    Code.LOSS_DIVERGENCE: lambda limits: {"loss": updates.needed_for_loss(limits)},
    Code.ENTROPY_EXPLOSION: lambda limits: {"entropy": _baseline(limits)},
    Code.KL_ESTIMATE: lambda limits: {"kl": limits["constant"]},
    Code.NO_UPDATE: lambda limits: dict.fromkeys(updates.INPUTS_OF_NO_UPDATE, limits["window"]),
    Code.PREFERENCE: lambda limits: dict.fromkeys(("preference_accuracy", "preference_margin"), limits["settled"]),
    Code.UNSCORED: lambda limits: {"unscored": limits["window"]},
    Code.FAILING_CALLS: lambda limits: {"failed_calls": limits["window"]},
    Code.SLOW_CALLS: lambda limits: {"call_seconds": limits["window"] + limits["reference"]},
    Code.STALE_ENGINE: lambda limits: {"versions_behind": limits["window"]},
}


def points(code: str, rule: Rule, limits: Limits, curves: Curves) -> Points:
    """Return the points of the alternative of inputs that lacks least."""
    needed = _NEEDED[code](limits) if code in _NEEDED else {}
    # That rule reads the first of its inputs that is logged, however many values the others have.
    first = [(name,) for name in rewards.SIGNAL_INPUTS if code == Code.NO_SIGNAL and curves.has(name)][:1]
    if code == Code.NO_SIGNAL and rewards.has_single_groups(curves.get("zero_variance"), limits):
        needed = {**needed, "zero_variance": limits["window"] * rewards.WINDOWS_FOR_SINGLE_GROUPS}
    alternatives = [
        min((Points(_number(curves, name), int(needed.get(name, 1))) for name in names), key=_surplus)
        for names in first or rule.needs
        # Of values of guessed steps a rule lacks nothing where a trainer may log its own.
        if not names[0].startswith("guessed_") or curves.has(names[0])
    ]
    return max(alternatives, key=_surplus)


def _surplus(of: Points) -> int:
    return of.observed - of.needed


def _number(curves: Curves, name: str) -> int:
    if name in curves.many:
        return max((curve.number for curve in curves.many[name].values()), default=0)
    curve = curves.get(name)
    return curve.number if curve is not None else 0
