"""Findings as lines for a terminal, and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_rl.report.core.finding import Finding, Overview

#: Version of the JSON: a key is removed or changes its meaning only with another number.
FORMAT = 1
_LINES = 3


def lines(overview: Overview) -> list[str]:
    """Return the first findings, one line each; without any, what was checked and how much was not observed."""
    sentences = [f"{finding.severity.value}: {finding.text}" for finding in overview.findings]
    if len(sentences) > _LINES:
        left = len(sentences) - _LINES + 1
        return [*sentences[: _LINES - 1], f"and {left} more findings, on the page"]
    return sentences or [no_finding(overview), *([text] if (text := unobserved(overview)) else [])]


def no_finding(overview: Overview) -> str:
    """Return one sentence for a run in which nothing was found."""
    return f"No finding in what was checked: {', '.join(checked(overview))}."


def checked(overview: Overview) -> list[str]:
    """Return what could be checked."""
    return [check.what for check in overview.checks if not check.unobserved]


def nothing_found(overview: Overview) -> list[str]:
    """Return what was checked and has no finding."""
    codes = {part.code for finding in overview.findings for part in (finding, *finding.symptoms)}
    return [check.what for check in overview.checks if not check.unobserved and codes.isdisjoint(check.codes)]


def unobserved(overview: Overview) -> str:
    """Return how much could not be checked; ``""`` where all could be."""
    number = sum(1 for check in overview.checks if check.unobserved)
    return f"Not observed: {number} of {len(overview.checks)} checks; the page says which, and why." if number else ""


def reasons(overview: Overview) -> dict[str, list[str]]:
    """Return reason -> what could not be checked for it, each with what was missing where the reason has it."""
    by_reason: dict[str, list[str]] = {}
    for check in overview.checks:
        if check.unobserved:
            reason, _, missing = check.unobserved.partition(": ")
            by_reason.setdefault(reason, []).append(f"{check.what}: {missing}" if missing else check.what)
    return by_reason


def as_json(overview: Overview) -> dict[str, Any]:
    """Return all findings with their symptoms, and the checks."""
    return {
        "format": FORMAT,
        "worst": overview.worst.value if overview.worst is not None else None,
        "findings": [_as_json(finding) for finding in overview.findings],
        "checked": checked(overview),
        "not_observed": {check.what: check.unobserved for check in overview.checks if check.unobserved},
    }


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "text": finding.text,
        "subject": finding.subject or None,
        "ranks": finding.ranks,
        "onset_step": finding.onset,
        "cost": finding.cost,
        "section": finding.section,
        "evidence": finding.evidence,
        "look_at": finding.look_at,
        "symptoms": [_as_json(symptom) for symptom in finding.symptoms],
    }
