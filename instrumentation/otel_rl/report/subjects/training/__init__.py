"""The values that the trainer logged.

Modules:
    aggregate: one curve per key.
    finding: a gradient norm of exactly 0.
    program_gauges: values of otel_rl.gauge.
    section: the section on training curves.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.training import finding, section
from otel_rl.report.subjects.training.aggregate import Scalars

SUBJECT = Subject(
    "training",
    aggregates=(Scalars,),
    findings=finding.findings,
    checks=finding.checks,
    sections={"training": section.build},
)
