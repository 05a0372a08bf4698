"""The checkpoints that a run has saved: when, how large, how long it took, and which are left.

Modules:
    saved: the checkpoints, from the records of the processes that saved them.
    finding: those that are cut.
    section: their table.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.checkpoints import finding, section

SUBJECT = Subject(
    "checkpoints",
    findings=finding.findings,
    checks=finding.checks,
    sections={"checkpoints": section.build},
)
