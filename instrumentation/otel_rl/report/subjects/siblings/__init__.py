"""What is slower than its siblings all along: a tool, a reward function, a server.

Modules:
    finding: one for each kind.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.siblings import finding

SUBJECT = Subject(
    "siblings",
    findings=finding.findings,
)
