"""Rollouts and agents; the numbers are those of :mod:`otel_rl.report.subjects.calls`.

Modules:
    finding: whether rollouts were recorded.
    section: the section on rollouts and agents.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.rollouts import finding, section

SUBJECT = Subject(
    "rollouts",
    checks=finding.checks,
    sections={"rollouts": section.build},
)
