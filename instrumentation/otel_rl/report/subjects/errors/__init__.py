"""Errors, uncaught exceptions and hangs.

Modules:
    groups: errors that look alike, and uncaught exceptions.
    finding: hangs, and errors that no other finding explains.
    section: the section on errors.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.errors import finding, section

SUBJECT = Subject(
    "errors",
    findings=finding.findings,
    checks=finding.checks,
    sections={"errors": section.build},
)
