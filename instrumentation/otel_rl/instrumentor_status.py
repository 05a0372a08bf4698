"""What became of each instrumentor in this process, for the summary line, ``otel-rl doctor`` and the self-metrics."""

from __future__ import annotations

from typing import TypedDict

ACTIVE = "active"
#: Its library has not been imported (yet).
WAITING = "waiting"
SKIPPED = "skipped"
FAILED = "failed"


class Outcome(TypedDict):
    """State and, unless active, the reason in words a user can act on."""

    state: str
    reason: str


_outcomes: dict[str, Outcome] = {}


def report(name: str, state: str, reason: str = "") -> None:
    """Record the state of instrumentor ``name`` (its entry-point name); the latest report counts."""
    _outcomes[name] = {"state": state, "reason": reason}


def snapshot() -> dict[str, Outcome]:
    """All outcomes so far, by name."""
    return {name: outcome.copy() for name, outcome in sorted(_outcomes.items())}
