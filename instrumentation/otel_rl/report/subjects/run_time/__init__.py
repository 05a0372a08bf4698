"""Where the time of the whole run went, from the start of the leading process to its end.

Modules:
    shares: the time of the leading process by what it was spent on.
    finding: whether most of a long run lies outside of its steps.
    program: which program it was: arguments, commit, versions, seed.
    section: the bar and its table.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.run_time import finding, section

SUBJECT = Subject(
    "run_time",
    findings=finding.findings,
    sections={"run_time": section.build},
)
