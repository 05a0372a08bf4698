"""Errors, uncaught exceptions and hangs.

Modules:
    aggregate: groups of errors, and telemetry that was dropped.
    finding: hangs, and errors that no other finding explains.
    section: the section on errors.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.errors import finding, section
from otel_rl.report.subjects.errors.aggregate import METRICS, Problems

SUBJECT = Subject(
    "errors",
    aggregates=(Problems,),
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"errors": section.build},
)
