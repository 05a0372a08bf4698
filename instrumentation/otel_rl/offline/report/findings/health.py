"""What the health rules say of the run, as findings and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State
from otel_rl.offline.report.findings import thresholds
from otel_rl.offline.report.findings.finding import Check, Finding, Severity

if TYPE_CHECKING:
    from otel_rl.health.verdict import Verdict
    from otel_rl.offline.report.aggregate.collected import Collected

_SEVERITIES = {State.WARNING: Severity.WARNING, State.CRITICAL: Severity.CRITICAL}
_SECTION = "training"
#: Code of the rule on step times: what became slower explains it.
_SLOW_STEP = "P7"


def find(collected: Collected, attempt: str) -> tuple[list[Finding], list[Check]]:
    """What was found, and for every rule without a finding what was checked, or why it could not be.

    ``attempt`` is the latest; it is not said.
    """
    found, checks = [], []
    for one in collected.health.verdicts():
        if one.is_finding:
            found.append(_finding(one, "" if one.attempt == attempt else one.attempt))
        else:
            checks.append(Check(one.title, one.evidence if one.severity == State.UNOBSERVED else ""))
    return found, checks


def _finding(one: Verdict, attempt: str) -> Finding:
    since = "" if one.onset is None else f" since step {one.onset}"
    if one.until is not None and one.onset is not None:
        since = f" from step {one.onset} to {one.until}"
    of_attempt = f" (attempt {attempt})" if attempt else ""
    return Finding(
        code=one.code,
        severity=_SEVERITIES[one.severity],
        text=f"{one.title}{since}{of_attempt}: {one.evidence}{'' if one.evidence.endswith('.') else '.'}",
        section=_SECTION,
        subject=one.metric,
        chart=one.metric,
        cost=one.cost or None,
        onset=one.onset,
        evidence=[RULES[one.code].means],
        look_at=list(one.next_steps),
    )


def explained(found: list[Finding], causes: list[Finding]) -> list[Finding]:
    """Findings of the rules without those on step times that another finding explains; these go below it."""
    left = []
    for one in found:
        cause = next((cause for cause in causes if _explains(cause, one)), None)
        if cause is None:
            left.append(one)
        else:
            cause.symptoms.append(one)
    return left


def _explains(cause: Finding, one: Finding) -> bool:
    if not one.code.startswith(_SLOW_STEP) or cause.onset is None or one.onset is None:
        return False
    return abs(cause.onset - one.onset) <= thresholds.TOGETHER
