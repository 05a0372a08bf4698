"""Errors of the run are counted once, however many records tell of one."""

from __future__ import annotations

from typing import Any

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


def _failed(name: str, span_id: str, parent_id: str = "", *, kind: str = "tool_error", **more: Any) -> Span:
    process = more.pop("process", PROCESS)
    return Span(
        process=process, scope="s", name=name, trace_id="t", span_id=span_id, parent_id=parent_id, start=1, end=2,
        attributes={"error.type": kind}, events=[], failed=True, message="", dropped=0, **more,
    )  # fmt: skip


def _exception(kind: str, at: int, cause: str = "", process: Process = PROCESS) -> Log:
    values = {"exception.type": kind, "exception.message": "m"}
    if cause:
        values["rl.cause.exception.type"] = cause
    return Log(process, "otel_rl.process", "rl.process.exception", at, 21, "FATAL", None, values, "", "")


def test_a_call_that_client_and_server_report_is_one_error() -> None:
    server = Process("two")
    calls = [
        record
        for number in range(3)
        for record in (
            _failed("tools/call refund", f"client{number}"),
            _failed("tools/call refund", f"server{number}", f"client{number}", process=server, is_server=True),
        )
    ]
    assert _number(*calls) == 3


def test_an_error_that_passes_through_spans_is_one_error_and_another_one_is_another() -> None:
    assert _number(_failed("outer", "a", kind="ValueError"), _failed("inner", "b", "a", kind="ValueError")) == 1
    assert _number(_failed("outer", "a", kind="TimeoutError"), _failed("inner", "b", "a", kind="ValueError")) == 2


def test_what_an_uncaught_exception_went_through_is_no_error_of_its_own() -> None:
    problems = Problems()
    for record in (
        _failed("rl.train", "a", kind="RuntimeError"),
        _failed("rl.loop", "b", kind="RuntimeError"),
        _failed("load", "c", kind="OSError"),
        _failed("load", "d", kind="KeyError"),
    ):
        problems.add_span(record)
    problems.add_log(_exception("RuntimeError", 3, "OSError"))
    assert [(group.where, group.kind) for group in problems.table()] == [("load", "KeyError")]
    assert problems.number == 2


def test_ctrl_c_is_no_error() -> None:
    problems = Problems()
    problems.add_span(_failed("rl.run", "a", kind="KeyboardInterrupt"))
    problems.add_log(_exception("KeyboardInterrupt", 3))
    assert problems.number == 0


def test_the_first_exceptions_in_time_keep_their_stacks() -> None:
    problems = Problems()
    for at in range(30, 0, -1):
        log = _exception("RuntimeError", at, process=Process(str(at)))
        log.attributes["exception.stacktrace"] = "stack"
        problems.add_log(log)
    assert [exception.time for exception in problems.exceptions] == list(range(1, 31))
    assert [bool(exception.stacktrace) for exception in problems.exceptions] == [True] * 20 + [False] * 10
