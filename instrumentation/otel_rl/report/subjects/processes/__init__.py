"""The processes that reported.

Modules:
    section: the section on them, and on missing ranks.
    worker_calls: the calls that workers of the program ran.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.processes import section
from otel_rl.semconv import metrics

SUBJECT = Subject(
    "processes",
    metrics=(metrics.RL_WORKER_CALL_DURATION,),
    sections={"processes": section.build},
)
