"""What the telemetry lost or could not see, and its own cost.

Modules:
    aggregate: what otel-rl itself took of the steps, and what it dropped.
    finding: lost telemetry, unseen collectives, errors of the instrumentation.
    section: the section on telemetry health.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.telemetry import finding, section
from otel_rl.report.subjects.telemetry.aggregate import METRICS

SUBJECT = Subject(
    "telemetry",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"telemetry": section.build},
)
