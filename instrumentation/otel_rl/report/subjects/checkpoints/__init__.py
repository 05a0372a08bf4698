"""The checkpoints that a run has saved: when, how large, how long it took, and which are left.

Modules:
    saved: the checkpoints, from the records of the processes that saved them.
    section: their table.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.checkpoints import section

SUBJECT = Subject("checkpoints", sections={"checkpoints": section.build})
