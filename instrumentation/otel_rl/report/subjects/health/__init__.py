"""Verdicts of the health rules.

Modules:
    aggregate: the rules over the records of the run.
    finding: what the rules found and checked.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.health import finding
from otel_rl.report.subjects.health.aggregate import HealthReplay

SUBJECT = Subject(
    "health",
    aggregates=(HealthReplay,),
    findings=finding.findings,
    checks=finding.checks,
)
