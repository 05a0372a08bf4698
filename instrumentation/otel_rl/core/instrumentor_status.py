"""The state of each instrumentor in this process, for the summary line, ``otel-rl doctor`` and the self-metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from otel_rl.core.guard import raised_by_signal_handler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACTIVE = "active"
#: Active, but something that the library should have is missing, or an instrumentor that it needs is off.
DEGRADED = "degraded"
#: Its library has not been imported (yet).
WAITING = "waiting"
SKIPPED = "skipped"
FAILED = "failed"


class ReportedState(TypedDict):
    """State and, unless active, the reason in words a user can act on."""

    state: str
    reason: str


_outcomes: dict[str, ReportedState] = {}
_needs: dict[str, tuple[str, ...]] = {}
_general_purpose: set[str] = set()


def report(name: str, state: str, reason: str = "") -> None:
    """Record the state of instrumentor ``name`` (its entry-point name); the latest report counts."""
    _outcomes[name] = {"state": state, "reason": reason}


def report_unloadable(name: str, error: Exception, loss: str) -> None:
    """Report that the modules of part ``name`` could not be loaded, and what is lost.

    Raises:
        Exception: ``error`` itself, where a signal handler of the program raised it.
    """
    if raised_by_signal_handler(error):
        raise error
    report(name, SKIPPED, f"could not be loaded ({type(error).__name__}: {error}): {loss}")


def declare_needs(name: str, needs: tuple[str, ...]) -> None:
    """Declare that ``name`` records only part of its telemetry while one of ``needs`` (entry-point names) is off."""
    _needs[name] = needs


def declare_general_purpose(names: Iterable[str]) -> None:
    """Declare that importing the library of one of these instrumentors does not suggest an AI workload."""
    _general_purpose.update(names)


def is_general_purpose(name: str) -> bool:
    """Return whether the library of instrumentor ``name`` is declared as general-purpose."""
    return name in _general_purpose


def snapshot() -> dict[str, ReportedState]:
    """Return all outcomes so far, by name; an active one whose needs are not met counts as degraded."""
    return {name: _with_needs(name, outcome) for name, outcome in sorted(_outcomes.items())}


def missing_need(needs: tuple[str, ...], outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a text that names the first of ``needs`` that records nothing; empty where all do, or may later."""
    for need in needs:
        outcome = outcomes.get(need)
        if outcome is None:
            return f"needs {need}, which is not instrumented"
        if outcome["state"] in (SKIPPED, FAILED):
            return f"needs {need}, which is {outcome['state']}: {outcome['reason']}"
    return ""


def _with_needs(name: str, outcome: ReportedState) -> ReportedState:
    if outcome["state"] in (ACTIVE, DEGRADED):
        reason = missing_need(_needs.get(name, ()), _outcomes)
        if reason:
            return {"state": DEGRADED, "reason": "; ".join(filter(None, (outcome["reason"], reason)))}
    return outcome.copy()
