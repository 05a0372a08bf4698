"""Versions of the weights that each engine answers with, and engines that stay behind.

Modules:
    aggregate: rollouts by engine and step, and how far the engine was behind.
    finding: an engine that was left out by a sync.
    lines: what the section on trajectories says of them.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.weight_versions import finding

SUBJECT = Subject(
    "weight_versions",
    findings=finding.findings,
    checks=finding.checks,
)
