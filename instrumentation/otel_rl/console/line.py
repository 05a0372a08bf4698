"""The line of one step, or of several that were too short for a line each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.console import categories
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Phases in the order of a step, each with the parts that stand for it in a step without the phase.
_PHASES: Mapping[str, tuple[str, ...]] = {
    Phase.DATA_WAIT: (),
    Phase.SAMPLE: (Phase.GENERATE, Phase.LOG_PROBS),
    Phase.REWARD: (),
    Phase.TRAIN: (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER),
    Phase.SYNC: (Phase.WEIGHT_SYNC,),
    Phase.EVALUATE: (),
    Phase.CHECKPOINT: (),
    Phase.LOAD: (),
}
#: Share of the steps' time from which on a phase is named, and how many are on a line that has no room for all.
_SMALLEST_SHARE, _FEW = 0.02, 3
_BETWEEN = " | "
_THOUSAND = 1000


@dataclass(slots=True)
class StepsSummary:
    """Steps since the last line: values are the latest of their key, times are sums in s.

    ``waits`` are those for batches that lie before the steps.
    """

    first: int | None = None
    last: int | None = None
    steps: int = 0
    seconds: float = 0.0
    waits: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    tokens: int = 0

    def covers(self, iteration: int) -> None:
        """Take in that it is about this iteration too."""
        self.first = iteration if self.first is None else min(self.first, iteration)
        self.last = iteration if self.last is None else max(self.last, iteration)


def text(summary: StepsSummary, width: int | None = None) -> str:
    """Return the line in at most ``width`` characters: what does not fit is left out, the last categories first."""
    line = _head(summary)
    for forms in (
        [categories.reward(summary.values)],
        [categories.learning(summary.values)],
        _time(summary),
        [categories.rollout(summary.values)],
        [_engine(summary)],
    ):
        longer = [line + _BETWEEN + part if part else line for part in forms]
        fitting = [one for one in longer if width is None or len(one) <= width]
        if not fitting:
            break
        line = fitting[0]
    return line if width is None else line[:width]


def _head(summary: StepsSummary) -> str:
    if summary.first == summary.last:
        return f"step {summary.last}"
    return f"steps {summary.first}-{summary.last}"


def _time(summary: StepsSummary) -> list[str]:
    """Return how long a step takes with all of its phases; and with a few of them, where there is no room for all."""
    if not summary.steps:
        return [""]
    each = summary.seconds / summary.steps
    length = f"{each * _THOUSAND:.3g} ms" if each < 1 else f"{each:.3g} s"
    period = summary.seconds + summary.waits
    known = {**summary.phases, Phase.DATA_WAIT: summary.waits + summary.phases.get(Phase.DATA_WAIT, 0.0)}
    shares = {name: seconds / period for name, seconds in known.items() if seconds >= _SMALLEST_SHARE * period > 0}
    outer = [
        name for phase, parts in _PHASES.items() for name in ((phase,) if phase in shares else parts) if name in shares
    ]
    largest = sorted(outer, key=lambda name: -shares[name])[:_FEW]
    forms = [_with_parts(shares, name) for name in outer], [_share(shares, name) for name in outer if name in largest]
    return [f"{length}: {', '.join(words)}" if words else length for words in forms]


def _with_parts(shares: Mapping[str, float], phase: str) -> str:
    """Return the share of a phase, of the training with its parts; those of others lie in several phases."""
    parts = _PHASES[phase] if phase == Phase.TRAIN else ()
    inner = ", ".join(_share(shares, part) for part in parts if part in shares)
    return f"{_share(shares, phase)} ({inner})" if inner else _share(shares, phase)


def _share(shares: Mapping[str, float], name: str) -> str:
    return f"{name.replace('_', ' ')} {shares[name]:.0%}"


def _engine(summary: StepsSummary) -> str:
    if not summary.tokens or not summary.seconds:
        return ""
    return f"engine {summary.tokens} tokens, {summary.tokens / summary.seconds:.3g}/s"
