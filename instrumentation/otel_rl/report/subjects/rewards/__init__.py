"""Scores and durations of the reward functions.

Modules:
    aggregate: scores and durations by reward function.
    finding: scores that reached no sample, and whether durations of functions were recorded.
    section: the section on rewards.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.rewards import finding, section
from otel_rl.report.subjects.rewards.aggregate import METRICS, Rewards

SUBJECT = Subject(
    "rewards",
    aggregates=(Rewards,),
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"rewards": section.build},
)
