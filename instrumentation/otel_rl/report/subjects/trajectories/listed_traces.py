"""The spans of the trajectories that are listed, and what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import timeline
from otel_rl.report.subjects.trajectories import conversations, totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.messages import Message
    from otel_rl.report.core.timeline import Timeline

#: Trajectories whose spans are listed.
_LISTED = 12


def traces(collected: Collected) -> Iterable[str]:
    """Return the traces of trajectories that are worth a look."""
    return totals.traces(collected, _LISTED)


def timelines(collected: Collected) -> dict[str, Timeline]:
    """Return the spans of these trajectories by trace."""
    drawn = {trace: timeline.of_rollout(trace, collected.traces.get(trace, [])) for trace in traces(collected)}
    return {trace: bars for trace, bars in drawn.items() if bars is not None}


def said(collected: Collected) -> dict[str, tuple[Message, ...]]:
    """Return what was said in them by trace."""
    told = {trace: conversations.of_spans(collected.traces.get(trace, [])) for trace in traces(collected)}
    return {trace: messages for trace, messages in told.items() if messages}
