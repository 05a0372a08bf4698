"""Findings as lines for a terminal, and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_rl.report.core.finding import Finding, Overview

#: Version of the JSON: a key is removed or changes its meaning only with another number.
FORMAT = 1
_LINES = 3


def lines(overview: Overview) -> list[str]:
    """The first findings, one line each; without any, what was checked and how much was not observed."""
    found = [f"{one.severity.value}: {one.text}" for one in overview.findings]
    if len(found) > _LINES:
        left = len(found) - _LINES + 1
        return [*found[: _LINES - 1], f"and {left} more findings, on the page"]
    return found or [no_finding(overview), *([text] if (text := unobserved(overview)) else [])]


def no_finding(overview: Overview) -> str:
    """One sentence for a run in which nothing was found."""
    return f"No finding in what was checked: {', '.join(checked(overview))}."


def checked(overview: Overview) -> list[str]:
    """What could be checked."""
    return [check.what for check in overview.checks if not check.unobserved]


def nothing_found(overview: Overview) -> list[str]:
    """What was checked and has no finding."""
    codes = {one.code for finding in overview.findings for one in (finding, *finding.symptoms)}
    return [check.what for check in overview.checks if not check.unobserved and codes.isdisjoint(check.codes)]


def unobserved(overview: Overview) -> str:
    """How much could not be checked; ``""`` where all could be."""
    number = sum(1 for check in overview.checks if check.unobserved)
    return f"Not observed: {number} of {len(overview.checks)} checks; the page says which, and why." if number else ""


def reasons(overview: Overview) -> dict[str, list[str]]:
    """Reason -> what could not be checked for it, each with what was missing where the reason says so."""
    found: dict[str, list[str]] = {}
    for check in overview.checks:
        if check.unobserved:
            reason, _, missing = check.unobserved.partition(": ")
            found.setdefault(reason, []).append(f"{check.what}: {missing}" if missing else check.what)
    return found


def as_json(overview: Overview) -> dict[str, Any]:
    """All findings with their symptoms, and the checks."""
    return {
        "format": FORMAT,
        "worst": overview.worst.value if overview.worst is not None else None,
        "findings": [_as_json(one) for one in overview.findings],
        "checked": checked(overview),
        "not_observed": {check.what: check.unobserved for check in overview.checks if check.unobserved},
    }


def _as_json(one: Finding) -> dict[str, Any]:
    return {
        "code": one.code,
        "severity": one.severity.value,
        "text": one.text,
        "subject": one.subject or None,
        "ranks": one.ranks,
        "onset_step": one.onset,
        "cost": one.cost,
        "section": one.section,
        "evidence": one.evidence,
        "look_at": one.look_at,
        "symptoms": [_as_json(symptom) for symptom in one.symptoms],
    }
