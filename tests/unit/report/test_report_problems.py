"""Errors of the run are counted once, however many records tell of one."""

from __future__ import annotations

from otel_rl.report.subjects.errors.aggregate import Problems
from otel_rl.store.reader import Log, Process, Span

PROCESS = Process("one")


def _span(span_id: str) -> Span:
    return Span(
        process=PROCESS,
        scope="otel_rl.langchain",
        name="execute_tool invented",
        trace_id="t",
        span_id=span_id,
        parent_id="",
        start=1,
        end=2,
        attributes={"error.type": "unknown_tool", "gen_ai.tool.name": "invented"},
        events=[],
        failed=True,
        message="unknown_tool",
        dropped=0,
    )


def _event(span_id: str) -> Log:
    return Log(
        PROCESS, "otel_rl.langchain", "rl.tool.unknown", 1, 9, "", None, {"gen_ai.tool.name": "invented"}, "t", span_id
    )


def _number(*records: Span | Log) -> int:
    problems = Problems()
    for record in records:
        if isinstance(record, Span):
            problems.add_span(record)
        else:
            problems.add_log(record)
    assert problems.number == sum(group.number for group in problems.table())
    return problems.number


def test_an_unknown_tool_with_span_and_event_counts_once_in_either_order() -> None:
    assert _number(_span("a"), _event("a"), _event("b"), _span("b")) == 2


def test_events_of_unknown_tools_without_a_span_of_their_own_all_count() -> None:
    # TRL's calls have none: their events are in the span of the phase.
    assert _number(_event("phase"), _event("phase"), _event(""), _event("")) == 4


def test_a_span_of_an_unknown_tool_without_logs_counts() -> None:
    assert _number(_span("a"), _span("b")) == 2
