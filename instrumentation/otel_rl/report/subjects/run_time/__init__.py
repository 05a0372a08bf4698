"""Where the time of the whole run went, from the start of the leading process to its end.

Modules:
    aggregate: the time of the leading process by what it was spent on.
    finding: whether most of a long run lies outside of its steps.
    intervals: stretches of time, and what several of them cover.
    program: which program it was: arguments, commit, versions, seed.
    section: the bar and its table.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.run_time import aggregate, finding, section

SUBJECT = Subject(
    "run_time",
    aggregates=(aggregate.RunTime,),
    findings=finding.findings,
    sections={"run_time": section.build},
)
