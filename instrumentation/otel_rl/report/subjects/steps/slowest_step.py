"""The spans of the slowest step, for its timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import timeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline


def traces(collected: Collected) -> Iterable[str]:
    """Return the trace of the slowest step that the page shows."""
    return [step.trace_id for step in collected.steps.slowest[:1]]


def timelines(collected: Collected) -> list[Timeline]:
    """Return its timeline; none where no step was traced."""
    drawn = (
        timeline.of_step(str(step.iteration), collected.traces.get(step.trace_id, []))
        for step in collected.steps.slowest[:1]
    )
    return [bars for bars in drawn if bars is not None]
