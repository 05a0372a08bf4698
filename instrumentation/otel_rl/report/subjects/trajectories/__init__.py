"""The samples of the run.

Modules:
    totals: all counted, those listed that are worth a look.
    groups: groups of samples: what they teach, and whether their advantages are right.
    advantages: the formulas of the trainers.
    conversations: what was said in a few of them.
    told_messages: what of a history the calls before it have told.
    listed_traces: the spans of those that are listed.
    side_calls: model calls of judges, and of tools.
    finding: advantages that the rewards do not give.
    section: the section on trajectories.
    trajectory_tables: its tables.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.trajectories import finding, listed_traces, section

SUBJECT = Subject(
    "trajectories",
    findings=finding.findings,
    checks=finding.checks,
    sections={"trajectories": section.build},
    traces=listed_traces.traces,
)
