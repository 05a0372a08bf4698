"""The values that the trainer logged.

Modules:
    finding: a gradient norm of exactly 0.
    program_gauges: values of otel_rl.gauge.
    scalars: one curve per key.
    section: the section on training curves.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.training import finding, section

SUBJECT = Subject(
    "training",
    findings=finding.findings,
    checks=finding.checks,
    sections={"training": section.build},
)
