"""Memory over time, garbage collections and compilations.

Modules:
    aggregate: memory by process, recompilations by function.
    section: the section on memory and pauses.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.memory import section
from otel_rl.report.subjects.memory.aggregate import METRICS, Pressure

SUBJECT = Subject(
    "memory",
    aggregates=(Pressure,),
    metrics=METRICS,
    sections={"pressure": section.build},
)
