"""The sections of the page, in reading order; one without data says what would fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.subjects import SECTIONS

if TYPE_CHECKING:
    from otel_rl.report.core.blocks import Section
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def build(collected: Collected, charts: Charts) -> list[Section]:
    """Build all sections, with or without data."""
    builders = {key: build for subject in collected.subjects for key, build in subject.sections.items()}
    sections = []
    for key in sorted(builders, key=_place):
        section = builders[key](collected, charts)
        for subject in collected.subjects:
            if key in subject.blocks:
                section.blocks += subject.blocks[key](collected, charts)
        sections.append(section)
    charts.close()
    return sections


def _place(key: str) -> int:
    return SECTIONS.index(key) if key in SECTIONS else len(SECTIONS)
