"""The settings of the program.

Modules:
    aggregate: the settings of each source, from its events.
    section: a table, folded.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.configuration import section
from otel_rl.report.subjects.configuration.aggregate import Configuration

SUBJECT = Subject("configuration", aggregates=(Configuration,), sections={"configuration": section.build})
