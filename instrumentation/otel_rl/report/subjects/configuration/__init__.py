"""The settings of the program.

Modules:
    settings: the settings of each source, from its events.
    section: a table, folded.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.configuration import section

SUBJECT = Subject("configuration", sections={"configuration": section.build})
