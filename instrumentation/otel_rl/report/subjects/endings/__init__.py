"""How the run ended, where that was not in order.

Modules:
    finding: the first process to stop, and those that failed because of it.
    section: where each rank was, and who waited for whom.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.endings import finding, section

SUBJECT = Subject(
    "endings",
    findings=finding.findings,
    checks=finding.checks,
    sections={finding.SECTION: section.build},
)
