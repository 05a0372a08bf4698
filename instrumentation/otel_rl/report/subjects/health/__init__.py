"""Verdicts of the health rules.

Modules:
    replay: the rules over the records of the run.
    told: what they have said while it ran.
    finding: what the rules found and checked.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.health import finding

SUBJECT = Subject(
    "health",
    findings=finding.findings,
    checks=finding.checks,
)
