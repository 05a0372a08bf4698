"""What changed, grows, comes and goes, or differs from its siblings: where, since when, at what cost, what follows.

Modules:
    finding: changes in all loops and attempts.
    chains: the first link is the finding, what follows from it stands below.
    series: every duration and rate over the steps, by place.
    level_changes: durations that rose, each with those that it explains.
    lost_time: what the steps lose to a change.
    work: what takes longer without being slower.
    change_sentences: one sentence for each of them.
    recurring: a cost that comes every n-th step or in bursts.
    quantities: every value over the steps that is no duration.
    shifts: values that jump, stand still or grow.
    members: what differs from its siblings.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.changes import finding

SUBJECT = Subject(
    "changes",
    findings=finding.findings,
)
