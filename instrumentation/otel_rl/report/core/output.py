"""Findings as lines for a terminal, and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.finding import CheckState, Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.finding import Check, Finding, Overview

    #: The rows of the run's tables that prove a finding.
    Records = Callable[[Finding], list[dict[str, Any]]]

#: Version of the JSON: a key is removed or changes its meaning only with another number.
FORMAT = 1
#: Checks that were made, in words for those without a finding.
_MADE = {CheckState.CHECKED: "Checked, nothing found", CheckState.SEEN: "Seen, without a finding"}
_LINES = 3


def lines(overview: Overview) -> list[str]:
    """Return the first findings, one line each; without any, the verdict and what it rests on."""
    sentences = [f"{finding.gravest.value}: {finding.text}" for finding in overview.findings]
    if is_in_order(overview):
        sentences.insert(0, verdict(overview))
        sentences += [checked_without_finding(overview)] if len(sentences) < _LINES else []
    if len(sentences) > _LINES:
        left = len(sentences) - _LINES + 1
        return [*sentences[: _LINES - 1], f"and {left} more findings, on the page"]
    return sentences


def is_in_order(overview: Overview) -> bool:
    """Return whether nothing was found beyond notices."""
    return overview.worst in (None, Severity.NOTICE)


def verdict(overview: Overview) -> str:
    """Return one sentence on a run in which nothing was found: how much of it was seen, and how much was checked."""
    number = Counter(check.state for check in overview.checks)
    parts = [f"checked {human.amount(sum(number[state] for state in _MADE), 'thing')}"]
    for state, singular, plural in _LEFT:
        if number[state]:
            parts.append(f"{human.number(number[state])} {singular if number[state] == 1 else plural}")
    if any(finding.code == NO_STEPS for finding in overview.findings):
        seen = _WITHOUT_STEPS
    else:
        found = "Nothing beyond notices found" if overview.findings else "Nothing wrong found"
        seen = f"{found} in {overview.extent}" if overview.extent else _NOTHING
    return f"{seen}: {'; '.join(parts)}."


#: Code of the finding that a program trains by steps that nothing recognised.
NO_STEPS = "no_steps"
_WITHOUT_STEPS = "No step was recognised, so the training was not judged"
_NOTHING = "Nothing was recorded, so there is nothing to judge"
_LEFT = (
    (CheckState.TOO_LITTLE, "had too little data", "had too little data"),
    (CheckState.NOT_RECORDED, "was not recorded", "were not recorded"),
    (CheckState.NOT_APPLICABLE, "does not apply", "do not apply"),
)


def without_finding(overview: Overview, state: CheckState) -> list[Check]:
    """Return the checks in this state that have no finding."""
    parts = [part for finding in overview.findings for part in finding.chain()]
    return [check for check in overview.checks if check.state is state and not check.is_found(parts)]


def checked_without_finding(overview: Overview) -> str:
    """Return one line with what was checked and has no finding, and how much each rests on; ``""`` without any."""
    said = []
    for state, words in _MADE.items():
        if names := [f"{check.what} ({check.detail})" for check in without_finding(overview, state)]:
            said.append(f"{words}: {', '.join(names)}.")
    return " ".join(said)


def as_json(overview: Overview, records: Records | None = None) -> dict[str, Any]:
    """Return all findings with their symptoms, and the checks; with ``records`` also what proves each finding."""
    unobserved = [check for check in overview.checks if check.state not in _MADE]
    return {
        "format": FORMAT,
        "worst": overview.worst.value if overview.worst is not None else None,
        "verdict": verdict(overview) if is_in_order(overview) else None,
        "findings": [_as_json(finding, records) for finding in overview.findings],
        "checked": [check.what for check in overview.checks if check.state in _MADE],
        "not_observed": {check.what: check.detail for check in unobserved},
        "checks": [
            {"what": check.what, "state": check.state.value, "points": check.points, "detail": check.detail}
            for check in overview.checks
        ],
    }


def _as_json(finding: Finding, records: Records | None) -> dict[str, Any]:
    proof = {} if records is None else {"points": finding.points, "records": records(finding)}
    return {
        "code": finding.code,
        "severity": finding.gravest.value,
        "text": finding.text,
        "subject": finding.subject or None,
        "ranks": finding.ranks,
        "onset_step": finding.onset,
        "cost": finding.cost,
        "section": finding.section,
        "evidence": finding.evidence,
        "look_at": finding.look_at,
        **proof,
        "symptoms": [_as_json(symptom, records) for symptom in finding.symptoms],
    }
