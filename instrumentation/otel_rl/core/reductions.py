"""The ladder: what otel-rl leaves out, rung by rung, where it would take too much of a step.

Who has the work asks ``on`` and sets ``offered`` when there is work to save. A rung is taken at the end of a step. The
switches are plain flags: every thread may see them at any moment. Nothing is taken back while the process runs: a
figure close to the limit would otherwise change what is recorded again and again.

What a variable of the user asks for comes last, and is named. Steps, phases, metrics, errors and content are never left
out: content is recorded only where the user asks for it.
"""

from __future__ import annotations

import os


class Reduction:
    """One rung; ``what`` says what is left out, ``variable`` how a user asks for it in the environment."""

    __slots__ = ("name", "offered", "on", "variable", "what")

    def __init__(self, name: str, what: str, variable: str = "", *, offered: bool = False) -> None:
        self.name = name
        self.what = what
        self.variable = variable
        #: There is something to save.
        self.offered = offered
        self.on = False

    @property
    def is_asked_for(self) -> bool:
        """True where the user has set the variable."""
        return bool(os.environ.get(self.variable, "").strip()) if self.variable else False

    @property
    def words(self) -> str:
        """What is left out, and whether the user has asked for it."""
        return f"{self.what} (although {self.variable} is set)" if self.is_asked_for else self.what


COLLECTIVES = Reduction(
    "slow_collectives",
    "no slowest collectives per step, and no further kind of collective is counted",
    "OTEL_RL_SLOWEST",
)
EVENT_LOOPS = Reduction(
    "event_loops",
    "event loops are looked at a fourth as often, and shorter blocks of them are not told",
    "OTEL_RL_EVENT_LOOP_SECONDS",
)
METRIC_INTERVAL = Reduction(
    "metric_interval", "metrics are exported a fourth as often", "OTEL_METRIC_EXPORT_INTERVAL", offered=True
)
PARTS = Reduction("phase_parts", "no spans inside phases, their durations are still measured")
PROGRAM_LOG = Reduction(
    "program_log",
    "no log records of the program below WARNING",
    "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED",
)

#: In the order in which they are taken: first what is missed least.
LADDER = (COLLECTIVES, EVENT_LOOPS, METRIC_INTERVAL, PARTS, PROGRAM_LOG)


def take_next() -> Reduction | None:
    """Take the next rung that saves something, those that the user asks for last; None where none is left."""
    left = [reduction for reduction in LADDER if reduction.offered and not reduction.on]
    following = min(left, key=lambda reduction: reduction.is_asked_for, default=None)
    if following is not None:
        following.on = True
    return following


def taken() -> list[Reduction]:
    """The rungs that have been taken."""
    return [reduction for reduction in LADDER if reduction.on]


def reset() -> None:
    """Record everything again; for tests, and for a forked child, which measures its own steps."""
    for reduction in LADDER:
        reduction.on = False
