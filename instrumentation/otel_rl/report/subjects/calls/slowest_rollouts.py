"""The spans of the slowest rollouts, for their timelines, and what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import timeline
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.calls.call_texts import of_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.subjects.calls.call_texts import CallText
    from otel_rl.report.subjects.calls.statistics import SlowCall
    from otel_rl.store.reader import Span

_TIMELINES = 3


class SlowestRollouts:
    """Spans of the slowest rollouts, and what was said in them."""

    def __init__(self) -> None:
        self.timelines: list[Timeline] = []
        self.said: list[CallText] = []


def _slowest(collected: Collected) -> list[SlowCall]:
    return rollouts.slowest(collected)[:_TIMELINES]


def traces(collected: Collected) -> Iterable[str]:
    """Return the traces of the slowest rollouts."""
    return [rollout.trace_id for rollout in _slowest(collected)]


def add_traces(collected: Collected, spans: Mapping[str, list[Span]]) -> None:
    """Take in the spans of the slowest rollouts."""
    found = collected[SlowestRollouts]
    for rollout in _slowest(collected):
        inside = sorted(spans.get(rollout.trace_id, []), key=lambda span: span.start)
        found.said += of_spans(inside[: timeline.MAX_ROWS])
        if (bars := timeline.of_rollout(rollout.name, inside)) is not None:
            found.timelines.append(bars)
