"""Rules on what the process calls, while it runs: tools, models and services that fail or are slow, stale engines.

The report judges them by the records of all processes instead, so these rules have no verdict there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.curves import middle
from otel_rl.health.reading import HEALTHY, TOO_FEW, Evidence, RuleReading, above, from_on, quantity, worst
from otel_rl.health.verdict import State
from otel_rl.semconv.attributes import RlCallKindValues as Kind
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.health.curves import Curves, InputWindow
    from otel_rl.health.reading import Limits
    from otel_rl.telemetry.progress import CallTotals

#: Rules without a verdict in the report.
LIVE_ONLY = frozenset({Code.FAILING_CALLS, Code.SLOW_CALLS, Code.STALE_ENGINE})
_KINDS = {Kind.TOOL, Kind.MODEL, Kind.SERVICE}
_PREFIX, _FAILED, _SECONDS = "calls/", "/failed_share", "/seconds"
#: Tokens of a model to which its seconds are: answers grow.
_TOKENS = 100
REFERENCE_WINDOW = 50
#: Fewest calls of one value: where a step has fewer, those of several steps are one.
FEWEST_CALLS = 5


class CallsOfSteps:
    """What the process has called between steps, a value of each tool, model or service for so many calls."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], CallTotals] = {}

    def values(self, now: Mapping[tuple[str, str], CallTotals]) -> dict[str, float]:
        """Return share of failures and mean seconds by the keys of these rules' inputs, of calls up to ``now``."""
        values: dict[str, float] = {}
        for (kind, name), totals in now.items():
            new = totals.since(self._before.get((kind, name)))
            if kind not in _KINDS or new.number < FEWEST_CALLS:
                continue
            self._before[kind, name] = totals
            values[f"{_PREFIX}{kind} {name}{_FAILED}"] = new.failed / new.number
            if new.work:
                scale = _TOKENS if kind == Kind.MODEL else 1
                values[f"{_PREFIX}{kind} {name}{_SECONDS}"] = scale * new.seconds / new.work
        return values


def _subject(curve: InputWindow) -> str:
    return curve.key.removeprefix(_PREFIX).removesuffix(_FAILED).removesuffix(_SECONDS)


def failing(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """Judge the share of the calls of one tool, model or service that fail."""
    return worst(*(_failing(curve, limits, state) for curve in curves.many["failed_calls"].values()))


def _failing(curve: InputWindow, limits: Limits, state: State) -> RuleReading:
    window = int(limits["window"])
    if curve.number < window:
        return TOO_FEW
    share = sum(curve.values[-window:]) / window
    level = above(share, limits["warning"], limits["critical"], state, limits["clear_share"])
    if level == State.HEALTHY:
        return HEALTHY
    threshold = limits["critical" if level == State.CRITICAL else "warning"]
    words = f"{_subject(curve)} fails in {share:.0%} of its calls, threshold {threshold:.0%}"
    return _reading(curve, level, share, threshold, "%", words, limits["warning"])


class SlowCalls:
    """Calls of one tool, model or service that take manyfold of what they did; that stands still while they do."""

    def __init__(self) -> None:
        self._usual: dict[str, float] = {}

    def __call__(self, curves: Curves, limits: Limits, state: State) -> RuleReading:
        """Read the curves."""
        return worst(*(self._judge(curve, limits, state) for curve in curves.many["call_seconds"].values()))

    def _judge(self, curve: InputWindow, limits: Limits, state: State) -> RuleReading:
        window, usual = int(limits["window"]), self._usual.get(curve.key)
        if curve.number < window + limits["reference"]:
            return TOO_FEW
        if usual is None or state < State.WARNING:
            usual = self._usual[curve.key] = middle(curve.values[-REFERENCE_WINDOW - window : -window])
        value, floor = curve.now(window), usual + limits["floor"]
        warning, critical = max(limits["warning"] * usual, floor), max(limits["critical"] * usual, floor)
        level = above(value, warning, critical, state, limits["clear_share"])
        if level == State.HEALTHY:
            return HEALTHY
        threshold, what = critical if level == State.CRITICAL else warning, _subject(curve)
        of_tokens = f" for {_TOKENS} tokens" if what.startswith(Kind.MODEL) else ""
        words = f"{what} takes {quantity(value, 's')}{of_tokens}, {quantity(usual, 's')} before"
        return _reading(curve, level, value, threshold, "s", words, (usual + warning) / 2)


def stale_engine(curves: Curves, limits: Limits, state: State) -> RuleReading:
    """Judge how many versions the engines of the rollouts are behind, beyond those of the first steps."""
    curve, window = curves.get("versions_behind"), limits["window"]
    start = curve.start(window) if curve is not None else None
    if curve is None or start is None:
        return TOO_FEW
    value = curve.now(window)
    warning, critical = start + limits["warning"], start + limits["critical"]
    level = above(value, warning, critical, state)
    if level == State.HEALTHY:
        return HEALTHY
    threshold = critical if level == State.CRITICAL else warning
    words = f"engines answer {quantity(value, '{version}')} behind the policy, {quantity(start)} at first"
    return _reading(curve, level, value, threshold, "{version}", words, (start + warning) / 2)


def _reading(
    curve: InputWindow, level: State, value: float, threshold: float, unit: str, words: str, left: float
) -> RuleReading:
    """Return a reading of a value that is too high since it has left what is below ``left``."""
    return RuleReading(
        level,
        curve.key,
        value,
        threshold,
        unit,
        value / threshold,
        lambda: Evidence(curve.since(from_on(left), gap=1), words),
    )
