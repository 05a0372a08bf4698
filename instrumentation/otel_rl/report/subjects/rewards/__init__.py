"""Scores and durations of the reward functions.

Modules:
    scores: scores by reward function.
    finding: scores that reached no sample, and whether durations of functions were recorded.
    section: the section on rewards.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.rewards import finding, section
from otel_rl.report.subjects.rewards.scores import METRICS

SUBJECT = Subject(
    "rewards",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"rewards": section.build},
)
