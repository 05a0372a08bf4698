"""An engine that generates with older weights than the others, or than the trainer has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects.trajectories import totals
from otel_rl.report.subjects.weight_versions.aggregate import of_run

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.subjects.weight_versions.aggregate import EngineHistory, Lag

CODE = "stale_engine"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return a finding per engine that a sync had left out, the one that answered most rollouts first."""
    versions = of_run(collected)
    stale = sorted(versions.stale().items(), key=lambda pair: -pair[1].rollouts)
    ended = totals.of_run(collected).ended
    return [_finding(name, lag, versions.engines[name], ended) for name, lag in stale]


def _finding(name: str, lag: Lag, history: EngineHistory, ended: int) -> Finding:
    since = "" if lag.since.iteration is None else f" since step {lag.since.iteration}"
    until = f", for {human.amount(lag.steps, 'step')}" if lag.is_left and lag.since.iteration is not None else ""
    share = lag.rollouts / history.rollouts
    text = (
        f"Engine {name} generated with old weights{since}{until}: it was up to "
        f"{human.amount(lag.behind, 'version')} behind, and answered "
        f"{human.amount(lag.rollouts, 'rollout')} meanwhile."
    )
    # What came late once is not what never comes.
    severity = Severity.WARNING if lag.is_left and lag.behind == 1 else Severity.CRITICAL
    cost = lag.rollouts / ended if ended else None
    finding = Finding(CODE, severity, text, "trajectories", name, onset=lag.since.iteration, cost=cost)
    seen = f"version {history.oldest}" if history.oldest == history.newest else f"{history.oldest} to {history.newest}"
    finding.evidence.append(
        f"That is {human.percent(share)} of its rollouts; versions that it answered with: {seen}, the last one "
        f"{history.latest}."
    )
    finding.look_at.append("the sync of the step before: whether it reached this engine, and how it ended there")
    return finding


def checks(collected: Collected) -> list[Check]:
    """Return whether that was looked for; engines that say no version are no matter of this check."""
    what, engines = "engines with old weights", of_run(collected).engines
    rollouts = sum(history.judged for history in engines.values())
    basis = f"{human.amount(rollouts, 'rollout')} of {human.amount(len(engines), 'engine')}"
    without = "" if engines else "no engine says the version of its weights"
    return [Check.of(what, rollouts, 1, "rollout", (CODE,), basis, without=without)]
