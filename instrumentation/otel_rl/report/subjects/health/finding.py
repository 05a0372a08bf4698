"""What the health rules say of the run, as findings and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State
from otel_rl.report.core import thresholds
from otel_rl.report.core.finding import Check, Finding, Severity

if TYPE_CHECKING:
    from otel_rl.health.verdict import Verdict
    from otel_rl.report.core.collected import Collected

_SEVERITIES = {State.WARNING: Severity.WARNING, State.CRITICAL: Severity.CRITICAL}
_SECTION = "training"
#: Code of the rule on step times: what became slower explains it.
_SLOW_STEP = "P7"


def find(collected: Collected, attempt: str) -> tuple[list[Finding], list[Check]]:
    """What was found, and for every rule without a finding what was checked, or why it could not be.

    ``attempt`` is the latest; it is not said.
    """
    found, checks = [], {}
    verdicts = collected.health.verdicts()
    several = len({one.loop for one in verdicts}) > 1
    for one in verdicts:
        if one.is_finding:
            of_attempt = f"attempt {one.attempt or '0.0.0'}" if one.attempt != attempt else ""
            places = [of_attempt, f"loop {one.loop}" if several else ""]
            found.append(_finding(one, ", ".join(filter(None, places))))
        elif one.title not in checks or one.severity == State.HEALTHY:
            # Judged in one of several loops.
            checks[one.title] = Check(one.title, one.evidence if one.severity == State.UNOBSERVED else "")
    return found, list(checks.values())


def _finding(one: Verdict, place: str) -> Finding:
    since = "" if one.onset is None else f" since step {one.onset}"
    if one.until is not None and one.onset is not None:
        since = f" from step {one.onset} to {one.until}"
    where = f" ({place})" if place else ""
    return Finding(
        code=one.code,
        severity=_SEVERITIES[one.severity],
        text=f"{one.title}{since}{where}: {one.evidence}{'' if one.evidence.endswith('.') else '.'}",
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
