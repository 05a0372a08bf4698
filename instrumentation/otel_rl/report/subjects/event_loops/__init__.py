"""Blocks of the event loops of asyncio programs.

Modules:
    blocks: blocks by the function that blocks.
    finding: event loops that were blocked while others waited.
    section: the table of functions, in the section on memory and pauses.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.event_loops import finding, section
from otel_rl.report.subjects.event_loops.blocks import METRICS

SUBJECT = Subject(
    "event_loops",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    blocks={"pressure": section.blocked},
)
