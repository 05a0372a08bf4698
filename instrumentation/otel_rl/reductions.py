"""The ladder: what otel-rl leaves out, rung by rung, where it would take too much of a step.

Who has the work asks ``on`` and sets ``offered`` when there is work to save. A rung is taken at the end of a step. The
switches are plain flags: every thread may see them at any moment. Nothing is taken back while the process runs: a
figure close to the limit would otherwise change what is recorded again and again.

Steps, phases, metrics and errors are never left out.
"""

from __future__ import annotations


class Reduction:
    """One rung; ``words`` say what is left out."""

    __slots__ = ("name", "offered", "on", "words")

    def __init__(self, name: str, words: str, *, offered: bool = False) -> None:
        self.name = name
        self.words = words
        #: There is something to save.
        self.offered = offered
        self.on = False


COLLECTIVES = Reduction(
    "slow_collectives", "no slowest collectives per step, and no further kind of collective is counted"
)
METRIC_INTERVAL = Reduction("metric_interval", "metrics are exported a fourth as often", offered=True)
PARTS = Reduction("phase_parts", "no spans inside phases, their durations are still measured")
PROGRAM_LOG = Reduction("program_log", "no log records of the program below WARNING")
CONTENT = Reduction("content", "no content of messages and tool calls")

#: In the order in which they are taken: first what is missed least.
LADDER = (COLLECTIVES, METRIC_INTERVAL, PARTS, PROGRAM_LOG, CONTENT)


def take_next() -> Reduction | None:
    """Take the next rung that saves something; None where none is left."""
    for reduction in LADDER:
        if reduction.offered and not reduction.on:
            reduction.on = True
            return reduction
    return None


def taken() -> list[Reduction]:
    """The rungs that have been taken."""
    return [reduction for reduction in LADDER if reduction.on]


def reset() -> None:
    """Record everything again; for tests, and for a forked child, which measures its own steps."""
    for reduction in LADDER:
        reduction.on = False
