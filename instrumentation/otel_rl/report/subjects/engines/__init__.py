"""What inference engines did in the steps; the numbers are those of :mod:`otel_rl.report.core.engines`.

Modules:
    section: the section on inference engines.
    request_times: how long requests took, of all calls and by server.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.engines import section

SUBJECT = Subject(
    "engines",
    sections={"engines": section.build},
)
