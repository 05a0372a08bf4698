"""The spans of the slowest rollouts, for their timelines, and what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import timeline
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.calls.call_texts import of_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.subjects.calls.call_texts import CallText
    from otel_rl.report.subjects.calls.statistics import SlowCall
    from otel_rl.store.reader import Span

_TIMELINES = 3


def _slowest(collected: Collected) -> list[SlowCall]:
    return rollouts.slowest(collected)[:_TIMELINES]


def traces(collected: Collected) -> Iterable[str]:
    """Return the traces of the slowest rollouts."""
    return [rollout.trace_id for rollout in _slowest(collected)]


def timelines(collected: Collected) -> list[Timeline]:
    """Return the timelines of the slowest rollouts."""
    drawn = (timeline.of_rollout(rollout.name, _inside(collected, rollout)) for rollout in _slowest(collected))
    return [bars for bars in drawn if bars is not None]


def said(collected: Collected) -> list[CallText]:
    """Return what was said in them."""
    return [
        text for rollout in _slowest(collected) for text in of_spans(_inside(collected, rollout)[: timeline.MAX_ROWS])
    ]


def _inside(collected: Collected, rollout: SlowCall) -> list[Span]:
    return sorted(collected.traces.get(rollout.trace_id, []), key=lambda span: span.start)
