"""The line of one step, or of several that were too short for a line each."""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_rl.console import categories

#: Phases that are named, and the share of the steps' time from which on one is.
_PHASES, _SMALLEST_SHARE = 3, 0.02
_BETWEEN = " | "
_THOUSAND = 1000


@dataclass(slots=True)
class StepsSummary:
    """Steps since the last line: values are the latest of their key, times are sums in s."""

    first: int | None = None
    last: int | None = None
    steps: int = 0
    seconds: float = 0.0
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
    for part in (
        categories.reward(summary.values),
        categories.learning(summary.values),
        _time(summary),
        categories.rollout(summary.values),
        _engine(summary),
    ):
        longer = line + _BETWEEN + part if part else line
        if width is not None and len(longer) > width:
            break
        line = longer
    return line if width is None else line[:width]


def _head(summary: StepsSummary) -> str:
    if summary.first == summary.last:
        return f"step {summary.last}"
    return f"steps {summary.first}-{summary.last}"


def _time(summary: StepsSummary) -> str:
    if not summary.steps:
        return ""
    each = summary.seconds / summary.steps
    length = f"{each * _THOUSAND:.3g} ms" if each < 1 else f"{each:.3g} s"
    shares = sorted(((seconds / summary.seconds, name) for name, seconds in summary.phases.items()), reverse=True)
    named = [f"{name} {share:.0%}" for share, name in shares[:_PHASES] if share >= _SMALLEST_SHARE]
    return f"{length}: {', '.join(named)}" if named else length


def _engine(summary: StepsSummary) -> str:
    if not summary.tokens or not summary.seconds:
        return ""
    return f"engine {summary.tokens} tokens, {summary.tokens / summary.seconds:.3g}/s"
