"""The values that the trainer logged.

Modules:
    aggregate: one curve per key.
    section: the section on training curves.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.training import section
from otel_rl.report.subjects.training.aggregate import Scalars

SUBJECT = Subject(
    "training",
    aggregates=(Scalars,),
    sections={"training": section.build},
)
