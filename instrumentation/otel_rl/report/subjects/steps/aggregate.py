"""The spans of the slowest step, for its timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.report.core import timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.store.reader import Span


@dataclass(slots=True)
class SlowestStep:
    """The timeline of the slowest step that the page shows; none where no step was traced."""

    timelines: list[Timeline] = field(default_factory=list)


def traces(collected: Collected) -> Iterable[str]:
    """Return the trace of the slowest step."""
    return [step.trace_id for step in collected.steps.slowest[:1]]


def add_traces(collected: Collected, spans: Mapping[str, list[Span]]) -> None:
    """Take in the spans of the slowest step."""
    slowest = collected.steps.slowest[:1]
    drawn = [timeline.of_step(str(step.iteration), spans.get(step.trace_id, [])) for step in slowest]
    collected[SlowestStep].timelines = [bars for bars in drawn if bars is not None]
