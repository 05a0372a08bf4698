"""What takes longer since a step: the place it comes from, what it costs, and what follows from it.

Modules:
    finding: changes in all loops and attempts.
    change_sentences: one sentence for each change.
    level_changes: the changes, each with those that it explains.
    lost_time: what the steps lose to a change.
    series: every duration and rate over the steps, by place.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.changes import finding

SUBJECT = Subject(
    "changes",
    findings=finding.findings,
)
