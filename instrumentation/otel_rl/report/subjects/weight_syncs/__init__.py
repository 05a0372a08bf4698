"""How new weights reach the engines, and syncs that brought nothing or a part.

Modules:
    syncs: stages of the syncs, and their problems.
    finding: weights that did not reach an engine.
    section: the table of stages, in the section on steps.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.weight_syncs import finding
from otel_rl.report.subjects.weight_syncs.syncs import METRICS

SUBJECT = Subject(
    "weight_syncs",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
)
