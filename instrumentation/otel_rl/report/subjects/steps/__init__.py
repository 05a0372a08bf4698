"""Where the time of the steps goes; the numbers are those of :mod:`otel_rl.report.core.steps`.

Modules:
    aggregate: the spans of the slowest step.
    finding: whether steps were recorded, step numbers that began again, and whether a change could be seen.
    section: the section on step time.
    step_tables: its tables.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.steps import aggregate, finding, section

SUBJECT = Subject(
    "steps",
    aggregates=(aggregate.SlowestStep,),
    findings=finding.findings,
    checks=finding.checks,
    sections={"steps": section.build},
    traces=aggregate.traces,
    add_traces=aggregate.add_traces,
)
