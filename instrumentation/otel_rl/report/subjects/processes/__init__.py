"""The processes that reported.

Modules:
    section: the section on them, and on missing ranks.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.processes import section

SUBJECT = Subject(
    "processes",
    sections={"processes": section.build},
)
