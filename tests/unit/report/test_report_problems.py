"""Errors of the run are counted once, however many records tell of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from otel_rl.report.subjects.errors import groups
from otel_rl.store.reader import Log, Process, Span
from otel_rl.store.tables import RunTables

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


def _collected(*records: Span | Log) -> Any:
    """What a report has collected of these records, as far as errors need it."""
    tables = RunTables()
    for record in records:
        tables.add(record)
    tables.settle()
    return SimpleNamespace(tables=tables, answers={})


def _number(*records: Span | Log) -> int:
    collected = _collected(*records)
    assert groups.number(collected) == sum(group.number for group in groups.table(collected))
    return groups.number(collected)


def test_an_unknown_tool_with_span_and_event_counts_once_in_either_order() -> None:
    assert _number(_span("a"), _event("a"), _event("b"), _span("b")) == 2


def test_events_of_unknown_tools_without_a_span_of_their_own_all_count() -> None:
    # TRL's calls have none: their events are in the span of the phase.
    assert _number(_event("phase"), _event("phase"), _event(""), _event("")) == 4


def test_a_span_of_an_unknown_tool_without_logs_counts() -> None:
    assert _number(_span("a"), _span("b")) == 2


def _failed(name: str, span_id: str, parent_id: str = "", *, kind: str = "tool_error", **more: Any) -> Span:
    begin = {"process": PROCESS, "start": 1, "end": 2}
    return Span(
        scope="s", name=name, trace_id="t", span_id=span_id, parent_id=parent_id, attributes={"error.type": kind},
        events=[], failed=True, message="", dropped=0, **(begin | more),
    )  # fmt: skip


def _exception(kind: str, at: int, cause: str = "", process: Process = PROCESS) -> Log:
    values = {"exception.type": kind, "exception.message": "m"}
    if cause:
        values["rl.cause.exception.type"] = cause
    severity = (9, "INFO") if kind == "KeyboardInterrupt" else (21, "FATAL")
    return Log(process, "otel_rl.process", "rl.process.exception", at, *severity, None, values, "", "")


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
    collected = _collected(
        _failed("rl.train", "a", kind="RuntimeError"),
        _failed("rl.loop", "b", kind="RuntimeError"),
        _failed("load", "c", kind="OSError"),
        _failed("load", "d", kind="KeyError"),
        _exception("RuntimeError", 3, "OSError"),
    )
    assert [(group.where, group.kind) for group in groups.table(collected)] == [("load", "KeyError")]
    assert groups.number(collected) == 2


def test_of_calls_that_were_tried_again_an_uncaught_exception_explains_the_last_one() -> None:
    calls = [_failed("load", f"{end}", kind="OSError", end=end) for end in (20, 5, 30)]
    [group] = groups.table(_collected(*calls, _exception("OSError", 31)))
    assert group.number == 2


def test_an_exception_of_another_process_or_of_much_later_explains_no_error() -> None:
    failed = _failed("rl.train", "a", kind="RuntimeError")
    for exception in (_exception("RuntimeError", 3, process=Process("two")), _exception("RuntimeError", 61 * 10**9)):
        assert groups.number(_collected(failed, exception)) == 2


def test_what_is_recorded_of_the_failure_of_a_child_is_that_childs_exception() -> None:
    child = Process("child", manifest={"pid": 7})
    told = Log(PROCESS, "s", "rl.child.failed", 9, 17, "ERROR", "a child failed", {"rl.child.pid": 7}, "", "")
    assert groups.number(_collected(told)) == 1
    assert groups.number(_collected(told, _exception("ValueError", 8, process=child))) == 1
    assert groups.number(_collected(told, _exception("ValueError", 8))) == 2


def test_ctrl_c_is_no_error() -> None:
    records = _failed("rl.run", "a", kind="KeyboardInterrupt"), _exception("KeyboardInterrupt", 3)
    assert groups.number(_collected(*records)) == 0


def test_a_group_is_of_the_ranks_that_failed_and_says_who_did_first() -> None:
    ranks = [Process(f"{rank}", manifest={} if rank is None else {"rank": rank}) for rank in (0, 1, None)]
    starts = 5, 3, 4
    records = [
        _failed("call", f"{start}", process=process, start=start, end=9)
        for process, start in zip(ranks, starts, strict=True)
    ]
    [group] = groups.table(_collected(*records))
    assert (group.number, group.spans, group.first, group.who) == (3, 3, 3, "rank 1")
    assert group.ranks == {0, 1, None}


def test_errors_of_more_kinds_than_are_listed_count_and_the_most_frequent_are_listed_with_all_hangs() -> None:
    failed = [_failed(f"call {kind}", f"{kind} {one}") for kind in range(300) for one in range(1 + (kind == 299))]
    hang = Log(PROCESS, "s", "rl.hang", 9, 17, "ERROR", "hangs", {}, "", "")
    collected = _collected(*failed, hang)
    listed = [group.where for group in groups.table(collected)]
    assert (len(listed), listed[0], "rl.hang" in listed) == (200, "call 299", True)
    assert (groups.left_out(collected), groups.number(collected)) == (101, 302)


def test_long_messages_are_cut_and_those_that_begin_alike_are_one_group() -> None:
    logs = [Log(PROCESS, "s", "", 9, 17, "ERROR", "x" * 300 + end, {}, "", "") for end in ("", "a", "b")]
    table = groups.table(_collected(*logs))
    assert [(len(group.message), group.number) for group in table] == [(301, 2), (300, 1)]


def test_the_first_exceptions_in_time_keep_their_stacks() -> None:
    logs = [_exception("RuntimeError", at, process=Process(str(at))) for at in range(30, 0, -1)]
    for log in logs:
        log.attributes["exception.stacktrace"] = "stack"
    exceptions = groups.uncaught(_collected(*logs))
    assert [exception.time for exception in exceptions] == list(range(1, 31))
    assert [bool(exception.stacktrace) for exception in exceptions] == [True] * 20 + [False] * 10
