"""Memory over time, garbage collections and compilations.

Modules:
    pressure: memory by process, recompilations by function.
    section: the section on memory and pauses.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.memory import pressure, section

SUBJECT = Subject(
    "memory",
    metrics=pressure.METRICS,
    sections={"pressure": section.build},
)
