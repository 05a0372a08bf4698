"""Rollouts and agents; the numbers are those of :mod:`otel_rl.report.subjects.calls`.

Modules:
    finding: whether rollouts were recorded, and a tail that costs much.
    section: the section on rollouts and agents.
    tail: the tail of generation, in which few rollouts of a step are still active.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.rollouts import finding, section
from otel_rl.semconv import metrics

SUBJECT = Subject(
    "rollouts",
    metrics=(metrics.RL_ROLLOUT_DURATION,),
    findings=finding.findings,
    checks=finding.checks,
    sections={"rollouts": section.build},
)
