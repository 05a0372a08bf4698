"""The spans of the trajectories that are listed, and what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import timeline
from otel_rl.report.subjects.trajectories import totals
from otel_rl.report.subjects.trajectories.conversations import Conversations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Span

#: Trajectories whose spans are listed.
_LISTED = 12


def traces(collected: Collected) -> Iterable[str]:
    """Return the traces of trajectories that are worth a look."""
    return totals.traces(collected, _LISTED)


def add_traces(collected: Collected, spans: Mapping[str, list[Span]]) -> None:
    """Take in the spans of these trajectories."""
    for trace in traces(collected):
        bars = timeline.of_rollout(trace, spans.get(trace, []))
        if bars is not None:
            collected[Conversations].spans[trace] = bars
        collected[Conversations].add_trace(trace, spans.get(trace, []))
