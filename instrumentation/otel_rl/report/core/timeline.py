"""Timelines of a few selected traces: the slowest step and the slowest rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.store.tables.operations import MODEL_OPERATIONS, error_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.reader import Span

MAX_ROWS = 40
_MAX_SPANS = 5000
_OTHER = "other"
#: Kinds that the label of a row names, and what stands before one that is inside of those above it.
_KINDS, _INSIDE = 3, "\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS} "


@dataclass(frozen=True, slots=True)
class Bar:
    """One span on a row; ``start`` and ``seconds`` in s, the former since the start of the trace."""

    #: Place of its row, from the top, and what the row is called.
    lane: int
    row: str
    name: str
    kind: str
    start: float
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bars of one trace and its rows from top to bottom; ``left_out`` spans had no room."""

    title: str
    rows: list[str]
    bars: list[Bar]
    left_out: int = 0


def by_trace(records: Iterable[Span]) -> dict[str, list[Span]]:
    """Return spans by trace, at most some thousands of each."""
    traces: dict[str, list[Span]] = {}
    for span in records:
        spans_of_trace = traces.setdefault(span.trace_id, [])
        if len(spans_of_trace) < _MAX_SPANS:
            spans_of_trace.append(span)
    return traces


def of_step(title: str, trace: list[Span]) -> Timeline | None:
    """Draw a row for each rank; spans inside of spans get rows of their own below it, indented."""
    depths = _depths(trace)
    inside = [span for span in trace if span.name not in (spans.RL_LOOP.type, spans.RL_RANK_STEP.type)]
    if not inside:
        return None
    start = min(span.start for span in trace)
    base = min(depths[span.span_id] for span in inside)
    lane_of = {
        span.span_id: (span.process.rank or 0, span.process.label, depths[span.span_id] - base) for span in inside
    }
    lanes = sorted(set(lane_of.values()))[:MAX_ROWS]
    labels = [_label(lane, [span for span in inside if lane_of[span.span_id] == lane], lanes) for lane in lanes]
    places = {lane: place for place, lane in enumerate(lanes)}
    # A request that lasts beside a phase of its row is drawn below it.
    bars = [
        _bar(span, place, labels[place], start)
        for span in sorted(inside, key=lambda span: kind_of(span) != _OTHER)
        if (place := places.get(lane_of[span.span_id])) is not None
    ]
    return Timeline(title, labels, bars, len(inside) - len(bars))


def _label(lane: tuple[int, str, int], spans_of_lane: list[Span], lanes: list[tuple[int, str, int]]) -> str:
    """Return the phases of a row, indented below their process, whose first row names it."""
    rank, process, depth = lane
    kinds = list(dict.fromkeys(kind_of(span) for span in spans_of_lane))
    said = ", ".join(kinds[:_KINDS]) + (", ..." if len(kinds) > _KINDS else "")
    is_first = all(other[:2] != (rank, process) or other[2] >= depth for other in lanes)
    return f"{process}: {said}" if is_first else _INSIDE * depth + said


def of_rollout(title: str, trace: list[Span]) -> Timeline | None:
    """Draw one row for each span, in the order in which they began."""
    if len(trace) < 2:  # noqa: PLR2004 - the rollout alone shows nothing
        return None
    depths = _depths(trace)
    ordered = sorted(trace, key=lambda span: (span.start, depths[span.span_id]))
    start = ordered[0].start
    rows, bars = [], []
    for number, span in enumerate(ordered[:MAX_ROWS], 1):
        row = f"{number}. {span.name[:48]}"
        rows.append(row)
        bars.append(_bar(span, number - 1, row, start))
    return Timeline(title, rows, bars, len(ordered) - len(rows))


def _bar(span: Span, lane: int, row: str, start: int) -> Bar:
    return Bar(lane, row, span.name, kind_of(span), (span.start - start) / 1e9, span.seconds, error_of(span))


def kind_of(span: Span) -> str:
    """Return the kind that sets a bar's colour: tool, model, agent, else the phase."""
    operation = span.attributes.get(names.GEN_AI_OPERATION_NAME)
    if operation == Operation.EXECUTE_TOOL:
        return "tool"
    if operation in MODEL_OPERATIONS:
        return "model"
    if operation is not None or span.name == spans.RL_ROLLOUT.type:
        return "agent"
    return str(span.attributes.get(names.RL_PHASE) or _OTHER)


def _depths(trace: list[Span]) -> dict[str, int]:
    parents = {span.span_id: span.parent_id for span in trace}
    depths: dict[str, int] = {}
    for span in trace:
        depth, parent, seen = 0, span.parent_id, {span.span_id}
        while parent in parents and parent not in seen:
            seen.add(parent)
            depth, parent = depth + 1, parents[parent]
        depths[span.span_id] = depth
    return depths
