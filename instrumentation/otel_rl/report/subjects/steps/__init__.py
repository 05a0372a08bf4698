"""Where the time of the steps goes; the numbers are those of :mod:`otel_rl.report.core.steps`.

Modules:
    slowest_step: the spans of the slowest step.
    finding: whether steps were recorded, step numbers that began again, and whether a change could be seen.
    section: the section on step time.
    step_tables: its tables.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.steps import finding, section, slowest_step

SUBJECT = Subject(
    "steps",
    findings=finding.findings,
    checks=finding.checks,
    sections={"steps": section.build},
    traces=slowest_step.traces,
)
