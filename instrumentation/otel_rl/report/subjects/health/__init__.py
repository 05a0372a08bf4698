"""Verdicts of the health rules.

Modules:
    replay: the rules over the records of the run.
    told: what they have said while it ran.
    log_calls: what trainers logged.
    finding: what the rules found and checked.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.health import finding
from otel_rl.report.subjects.health.log_calls import LogCalls

SUBJECT = Subject(
    "health",
    aggregates=(LogCalls,),
    findings=finding.findings,
    checks=finding.checks,
)
