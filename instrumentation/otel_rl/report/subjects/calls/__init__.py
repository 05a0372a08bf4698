"""Tool calls and model calls, and the rollouts and agents that make them.

Modules:
    statistics: tools, models, agents and services: who took long, what failed, how many tokens.
    rollouts: rollouts likewise.
    lines: durations, failures and retries over the steps.
    call_texts: what was said in a few calls.
    slowest_rollouts: the spans of the slowest rollouts.
    hanging: calls that hung.
    tool_faults: tools asked for without JSON, errors in texts, calls over and over.
    cancelled: calls and rollouts that the program or a time limit cancels.
    finding: tools and model calls that fail or are sent again.
    section: the sections on tools and models.
    call_tables: tables of rollouts, tool calls, model calls and agents.
    over_time_charts: charts over the steps.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.calls import finding, section, slowest_rollouts
from otel_rl.report.subjects.calls.statistics import METRICS

SUBJECT = Subject(
    "calls",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"tools": section.tools, "models": section.models},
    traces=slowest_rollouts.traces,
)
