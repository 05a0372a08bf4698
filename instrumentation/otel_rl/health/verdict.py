"""What a rule says of a run: its four states, and the verdict with onset, evidence and what to look at next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """State of a rule; the number is the value of the gauge ``rl.health``."""

    #: An input is missing, or there are too few steps. Never the same as healthy.
    UNOBSERVED = -1
    HEALTHY = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """The word for it in events and texts."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says. A rule that found nothing has one verdict too: what was checked, or why it was not."""

    #: Code of the rule, such as ``P3_kl_explosion``: a value of ``rl.health.code``.
    code: str
    title: str
    #: The worst state since the onset. Of a rule that found nothing, healthy or unobserved.
    severity: State
    #: The step at which the evidence began; None where nothing was found.
    onset: int | None
    #: The step at which it was over; None while it lasts.
    until: int | None
    #: One sentence with metric, values and threshold. Of an unobserved rule, the reason.
    evidence: str
    #: What to look at next, the most telling first.
    next_steps: tuple[str, ...] = ()
    #: Key under which the trainer logged the metric, for a link to its chart; empty where there is none.
    metric: str = ""
    #: The worst value, and the threshold that it passed, both in ``unit``.
    value: float | None = None
    threshold: float | None = None
    unit: str = ""
    #: Share of the judged steps that are affected, from 0 to 1.
    cost: float = 0.0
    #: Attempt of the run, as in ``rl.run.attempt``; empty for the first.
    attempt: str = ""
    #: Name of the loop, where the program gave it one.
    loop: str = ""
    #: Values of its inputs that were seen, and fewest with which the rule judges; both 0 where no record has them.
    observed: int = 0
    needed: int = 0
    #: Inputs that are missing, of the alternative that lacks least.
    lacking: tuple[str, ...] = ()
    #: Keys of the values that it was judged by, where nothing was found.
    keys: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        """True for what deserves a look: a warning or something critical, whether it lasts or is over."""
        return self.severity >= State.WARNING


def by_weight(verdict: Verdict) -> tuple[int, bool, float, int]:
    """Sort key: critical before warning, what lasts before what is over, then by cost and onset."""
    onset = verdict.onset if verdict.onset is not None else 0
    return (-verdict.severity, verdict.until is not None, -verdict.cost, onset)
