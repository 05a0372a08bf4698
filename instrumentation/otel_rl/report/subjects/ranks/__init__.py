"""Ranks, the collectives in which they meet, and ranks that the others wait for.

Modules:
    reported: ranks that the job reported as late while it ran.
    device_waits: the time of each rank's device in the collectives of NCCL.
    last_rank_finding: the rank that came last in them.
    collectives: collectives by operation and group.
    finding: the ranks that the others wait for, or waited for.
    told: the same as the job told while it ran.
    last_steps: the same of the last steps, from the flight recorders.
    own_work: the same of the whole run, from the spans of the steps.
    sentences: what these say alike.
    section: the section on ranks and collectives.
    rank_tables: tables of ranks and collectives.
    late_rank_tables: tables of late ranks.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.ranks import finding, section
from otel_rl.report.subjects.ranks.collectives import METRICS

SUBJECT = Subject(
    "ranks",
    metrics=METRICS,
    findings=finding.findings,
    checks=finding.checks,
    sections={"ranks": section.build},
)
