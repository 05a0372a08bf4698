"""The sections of the page, in reading order; one without data says what would fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.subjects import SECTIONS
from otel_rl.report.subjects.training import program_kinds, scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.report.core.blocks import Section
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview


def build(collected: Collected, charts: Charts, overview: Overview) -> list[Section]:
    """Build all sections, with or without data; those that a finding leads to keep no brief."""
    builders = _builders(collected)
    kind = program_kinds.kind_of(collected, scalars.of_run(collected).keys)
    order = list(dict.fromkeys((*kind.sections, *SECTIONS, *builders)))
    found = {part.section for finding in overview.findings for part in finding.chain()}
    sections = []
    for key in sorted(builders, key=order.index):
        section = builders[key](collected, charts)
        for subject in collected.subjects:
            if key in subject.blocks:
                section.blocks += subject.blocks[key](collected, charts)
        if key in found:
            section.brief = ""
        sections.append(section)
    charts.close()
    return sections


def build_of(collected: Collected, charts: Charts, keys: Sequence[str]) -> list[Section]:
    """Build these sections, each without the blocks of other subjects at its end."""
    built = [build(collected, charts) for key, build in _builders(collected).items() if key in keys]
    charts.close()
    return built


def _builders(collected: Collected) -> dict[str, Callable[[Collected, Charts], Section]]:
    return {key: build for subject in collected.subjects for key, build in subject.sections.items()}
