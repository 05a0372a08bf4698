"""Tables of model and tool calls: tokens that were said or estimated, calls of two sides, and what was said in them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanKind
from unit.report.made_up_jobs import STARTED, examined
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.report import write_report
from otel_rl.report.core import output
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.report.subjects.calls.call_texts import OF_A_KIND, OF_ALL_PARTS
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
USAGE = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 30}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}


@pytest.fixture
def writer(tmp_path: Path) -> ProcessWriter:
    return process(tmp_path / tmp_path.name, None, started=STARTED)


def _section(writer: ProcessWriter, key: str) -> str:
    """The section of the page, without its markup."""
    return re.sub(r"<[^>]+>|\s+", " ", _markup(writer, key)).replace("  ", " ")


def _markup(writer: ProcessWriter, key: str) -> str:
    writer.write()
    page = write_report(writer.folder.parent, writer.folder.parent / "p.html").output.read_text(encoding="utf-8")
    return page.partition(f'<section id="{key}">')[2].partition("</section>")[0]


def _said(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def test_the_speed_of_a_model_is_of_the_calls_whose_tokens_are_known(writer: ProcessWriter) -> None:
    for at, values in ((0, USAGE), (1, USAGE), (2, {})):
        writer.span("chat m", at, at + 0.5, {**CHAT, **values})
    said = " ".join(_section(writer, "models").split())
    assert "20 (of 2 of 3 calls) 60 (of 2 of 3 calls) 60 " in said


def test_tokens_of_a_stream_without_usage_are_estimated_and_marked(writer: ProcessWriter) -> None:
    writer.span("chat m", 0, 1, {**CHAT, **USAGE})
    writer.span("chat m", 1, 2, {**CHAT, "rl.inference.output_tokens.estimated": 10})
    said = " ".join(_section(writer, "models").split())
    assert "10 (of 1 of 2 calls) 40 (10 of it estimated) about 20 " in said
    assert "about 10 output tokens" in said


def _failing_tools(writer: ProcessWriter, values: dict[str, Any]) -> None:
    for at in range(4):
        writer.span("tools/call refund", at, at + 0.5, {**TOOL, **values}, error="tool_error")


def test_without_content_finding_and_table_name_the_variable_that_records_the_reason(writer: ProcessWriter) -> None:
    _failing_tools(writer, {})
    errors, tools = _section(writer, "errors"), _section(writer, "tools")
    [one] = [one for one in examined(writer.folder.parent).findings if one.code == "failing_tool"]
    assert one.look_at == [f"What the tool answered: it is content, which {VARIABLE} records."]
    assert f"content is not recorded ({VARIABLE})" in errors
    assert f"What was said in a call is not recorded; {VARIABLE} records it." in tools


def test_with_content_they_lead_to_what_the_tool_was_given_and_answered(writer: ProcessWriter) -> None:
    answer = {"gen_ai.tool.call.arguments": '{"order": 7}', "gen_ai.tool.call.result": '"no such order"'}
    _failing_tools(writer, answer)
    errors, tools = _section(writer, "errors"), _markup(writer, "tools")
    [one] = [one for one in examined(writer.folder.parent).findings if one.code == "failing_tool"]
    assert one.look_at == ["What a failed call was given and answered: read, in the table of tool calls."]
    assert "read what was said, at the calls" in errors
    assert "<b>arguments</b><p>{&#34;order&#34;: 7}</p>" in tools
    assert "<b>result</b><p>no such order</p>" in tools
    assert VARIABLE not in errors + tools


def test_each_call_that_is_kept_has_a_link_to_its_text(writer: ProcessWriter) -> None:
    content = {"gen_ai.input.messages": _said("user", "<b>2+2?"), "gen_ai.output.messages": _said("assistant", "4")}
    writer.span("chat m", 0, 1, {**CHAT, **content})
    models = _markup(writer, "models")
    [link] = re.findall(r'href="#(call-\w+)">read<', models)
    assert f'id="{link}"' in models
    assert 'class="messages" tabindex="0" role="region"' in models
    assert '<div class="message user"><b>user</b><p>&lt;b&gt;2+2?</p>' in models
    assert "1 of 1 call to read" in models


def test_of_many_calls_a_few_are_kept_and_the_rest_is_counted(writer: ProcessWriter) -> None:
    content = {"gen_ai.input.messages": _said("user", "hi")}
    for number in range(500):
        error = "Timeout" if number == 100 else None
        writer.span("chat m", number, number + 0.5, {**CHAT, **content}, error=error)
    models = _markup(writer, "models")
    [(kept, left_out)] = re.findall(r"(\d+) of 500 calls to read.*?(\d+) are left out", models, re.DOTALL)
    assert int(kept) + int(left_out) == 500
    assert int(kept) <= 3 * OF_A_KIND + OF_ALL_PARTS
    assert "chat m, 500 ms, Timeout" in models


def test_content_of_events_can_be_read_too(writer: ProcessWriter) -> None:
    writer.span("chat m", 0, 1, CHAT)
    event = {**CHAT, "gen_ai.input.messages": _said("user", "from an event")}
    writer.event("gen_ai.client.inference.operation.details", 1, attributes=event)
    assert "from an event" in _section(writer, "models")


def test_a_call_of_which_only_the_servers_side_was_recorded_counts(writer: ProcessWriter) -> None:
    for at in range(3):
        span = writer.tracer.start_span("tools/call refund", kind=SpanKind.SERVER, attributes=TOOL, start_time=at)
        span.end(at + 500_000_000)
    assert "refund 3 0" in " ".join(_section(writer, "tools").split())


def test_a_call_that_caller_and_server_have_measured_counts_once_with_the_callers_failures(tmp_path: Path) -> None:
    caller, server = (process(tmp_path / "run", None, started=1, process__pid=pid) for pid in (1, 2))
    duration = "gen_ai.execute_tool.duration"
    caller_times, server_times = (one.meter.create_histogram(duration, "s") for one in (caller, server))
    for at in range(4):
        failed = {"error.type": "tool_error"} if at < 2 else {}
        caller.span("tools/call refund", at, at + 0.5, {**TOOL, **failed}, error=failed.get("error.type"))
        caller_times.record(0.5, {"gen_ai.tool.name": "refund", **failed})
        server_times.record(0.4, {"gen_ai.tool.name": "refund"})
        server.tracer.start_span("tools/call refund", kind=SpanKind.SERVER, attributes=TOOL).end()
    caller.write()
    server.write()
    collected = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None)
    [refund] = statistics.tools(collected)
    assert (refund.number, refund.failed) == (4, 2)


def test_a_call_that_both_sides_recorded_counts_once(writer: ProcessWriter) -> None:
    for at in range(3):
        writer.span("tools/call refund", at, at + 0.5, TOOL)
        span = writer.tracer.start_span("tools/call refund", kind=SpanKind.SERVER, attributes=TOOL, start_time=at)
        span.end(at + 500_000_000)
    assert "refund 3 0" in " ".join(_section(writer, "tools").split())


def _findings(writer: ProcessWriter) -> dict[str, Any]:
    writer.write()
    return {one.code: one for one in examined(writer.folder.parent).findings}


def test_answers_with_arguments_that_are_no_json_are_a_finding_by_tool(writer: ProcessWriter) -> None:
    for at in range(8):
        values = {"rl.inference.tool_calls": ["bash", "bash"], "rl.loop.iteration": at}
        values |= {"rl.inference.invalid_tool_calls": ["bash"]} if at > 3 else {}
        writer.span("chat m", at, at + 0.5, {**CHAT, **values})
    finding = _findings(writer)["no_json_arguments"]
    assert finding.text == ("4 of 8 answers that ask for tool bash have arguments that are no JSON, first in step 4.")
    assert (finding.subject, finding.onset, finding.cost) == ("bash", 4, 0.5)


def test_a_tool_that_says_its_errors_in_texts_is_a_finding_though_no_call_failed(writer: ProcessWriter) -> None:
    for at in range(10):
        outcome = "error_text" if at < 3 else "ok"
        writer.span("execute_tool refund", at, at + 0.5, {**TOOL, "rl.tool.outcome": outcome})
    assert _findings(writer)["error_text"].text == (
        "Tool refund returned a text that begins as an error does in 3 of 10 calls; none of them counts as failed."
    )


def _rows(writer: ProcessWriter, repeated: list[int | None]) -> None:
    tools = ["refund" if one else None for one in repeated]
    body = {
        "rl.rollout.status": ["failed" if one else "finished" for one in repeated],
        "rl.rollout.tool_calls": [12] * len(repeated),
        "rl.rollout.repeated_calls": repeated,
        "rl.rollout.repeated_tool": tools,
    }
    writer.event("rl.trajectories", 1, body, {"rl.trajectories.source": "agent"})


def test_a_tool_called_over_and_over_explains_the_errors_that_ended_its_rollouts(writer: ProcessWriter) -> None:
    for at in range(3):
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
        writer.span("invoke_agent a", at, at + 0.5, agent, error="GraphRecursionError")
    _rows(writer, [12, 12, 12])
    findings = _findings(writer)
    assert findings.keys() == {"repeated_tool"}
    assert findings["repeated_tool"].text == (
        "refund was called 12 times in a row with the same arguments and result in each of 3 rollouts, which ended "
        "with GraphRecursionError."
    )
    assert [one.code for one in findings["repeated_tool"].symptoms] == ["failing_rollouts", "errors"]


def _failed_rollouts(writer: ProcessWriter, failed: int, of: int) -> None:
    """Rollouts with a model call each, which ends the first ones; one more call fails and ends nothing."""
    for at in range(of):
        error = "openai.InternalServerError" if at < failed else None
        of_step = {"rl.loop.iteration": at + 2}
        root = writer.span("rl.rollout", at, at + 0.9, {"rl.rollout.id": str(at), **of_step}, error=error)
        writer.span(f"chat {at % 2}", at, at + 0.5, {**CHAT, "gen_ai.request.model": str(at % 2)}, root, error)
    writer.span("call other", of, of + 0.5, error="ValueError")
    writer.write()


def test_rollouts_that_fail_are_a_finding_with_the_errors_that_ended_them(writer: ProcessWriter) -> None:
    _failed_rollouts(writer, failed=4, of=48)
    overview = examined(writer.folder.parent)
    [finding] = [one for one in overview.findings if one.code == "failing_rollouts"]
    assert finding.severity == "warning"
    assert finding.text == ("4 of 48 rollouts failed: InternalServerError, most often in chat 0, first in step 2.")
    assert (finding.onset, finding.cost, finding.section) == (2, 4 / 48, "rollouts")
    [errors] = finding.symptoms
    assert errors.text == (
        "5 failed spans: 2 InternalServerError in chat 0 (ended 2 rollouts), 2 InternalServerError in chat 1 "
        "(ended 2 rollouts), 1 ValueError in call other."
    )


def test_most_rollouts_that_fail_are_critical(writer: ProcessWriter) -> None:
    _failed_rollouts(writer, failed=3, of=6)
    assert {one.code: one.severity for one in examined(writer.folder.parent).findings}["failing_rollouts"] == "critical"


def test_few_rollouts_that_fail_are_said_with_their_error_and_before_errors_that_end_none(
    writer: ProcessWriter,
) -> None:
    _failed_rollouts(writer, failed=1, of=48)
    writer.span("call other", 50, 50.5, error="ValueError")
    writer.write()
    overview = examined(writer.folder.parent)
    [check] = [one for one in overview.checks if one.what == "failing rollouts"]
    assert (check.state, check.detail) == ("below_threshold", "1 of 48 rollouts: InternalServerError")
    assert [one.text for one in overview.findings] == [
        "3 failed spans: 1 InternalServerError in chat 0 (ended 1 rollout), 2 ValueError in call other."
    ]


def test_the_tile_of_tokens_says_of_how_many_calls_they_are(writer: ProcessWriter) -> None:
    writer.span("chat m", 0, 1, {**CHAT, **USAGE})
    writer.span("chat m", 1, 2, {**CHAT, "rl.inference.output_tokens.estimated": 10})
    writer.span("chat m", 2, 3, CHAT, error="ValueError")
    writer.write()
    page = write_report(writer.folder.parent, writer.folder.parent / "p.html").output.read_text(encoding="utf-8")
    assert "10 in (of 1 of 2 calls), 40 out, 10 of it estimated" in page


def test_first_chunks_that_only_the_metric_has_are_not_said_to_be_absent(writer: ProcessWriter) -> None:
    writer.span("chat m", 0, 1, CHAT)
    first_chunk = writer.meter.create_histogram("gen_ai.client.operation.time_to_first_chunk", "s")
    first_chunk.record(0.5, CHAT)
    writer.write()
    [check] = [one for one in examined(writer.folder.parent).checks if one.what == "first chunks that come later"]
    assert check.state == "too_little_data"


@pytest.mark.parametrize(
    ("repeated", "is_found"), [([4, 4, 4], False), ([9, None, None], False), ([10, None, None], True)]
)
def test_few_calls_in_a_row_are_no_loop(writer: ProcessWriter, repeated: list[int | None], is_found: bool) -> None:
    _rows(writer, repeated)
    assert ("repeated_tool" in _findings(writer)) is is_found


def test_errors_that_end_nothing_are_told_by_type_and_place(writer: ProcessWriter) -> None:
    def logged(step: int, number: int, line: int, **values: Any) -> None:
        place = {"code.file.path": "env.py", "code.line.number": line, "rl.log.logger": "env"}
        attributes = {**place, "rl.log.records": number, "rl.loop.iteration": step, **values}
        writer.event("rl.log.error", step, None, attributes, severity=17)

    lost = {"exception.type": "ValueError", "rl.exception.never_retrieved": True}
    for number in (1, 2, 3):
        logged(4, number, 8, **lost)
    logged(2, 5, 14)
    findings = _findings(writer)
    assert {code: one.severity for code, one in findings.items()} == {
        "lost_exception": "warning",
        "logged_error": "notice",
    }
    assert findings["lost_exception"].text == (
        "3 exceptions of asyncio tasks that nobody awaited: ValueError at env.py:8 (3), first in step 4."
    )
    assert (
        findings["logged_error"].text
        == "5 errors in the program's own log: record of env at env.py:14 (5), first in step 2."
    )


def test_what_was_seen_too_rarely_for_a_finding_is_not_said_to_be_absent(writer: ProcessWriter) -> None:
    for at in range(100):
        writer.span("chat m", at, at + 0.5, {**CHAT, "rl.inference.retries": int(at < 2)})
        writer.span("execute_tool refund", at, at + 0.5, {**TOOL, "rl.tool.outcome": "ok" if at else "error_text"})
    writer.span("chat m", 100, 101, CHAT, error="asyncio.exceptions.CancelledError")
    _rows(writer, [9, None, None])
    writer.write()
    overview = examined(writer.folder.parent)
    nothing_found, seen = output.checked_without_finding(overview).split(" Seen, without a finding: ")
    assert seen == (
        "results of tools that are errors in a text (1 of 100 tool calls), retried model calls (2 of 100 calls),"
        " cancelled calls of tools and models (1 of 201 calls), tools called over and over (1 of 3 rollouts with"
        " tools)."
    )
    assert "failing model calls (101 calls)" in nothing_found
    found = output.as_json(overview)
    states = {check["what"]: check["state"] for check in found["checks"]}
    assert states["retried model calls"] == "below_threshold"
    assert "retried model calls" in found["checked"]
    assert "retried model calls" not in found["not_observed"]


def test_a_cancelled_call_is_no_error_and_no_success(writer: ProcessWriter) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    for at, (name, values) in enumerate((("chat m", CHAT), ("execute_tool refund", TOOL), ("invoke_agent a", agent))):
        writer.span(name, at, at + 0.5, values, error="asyncio.exceptions.CancelledError")
    assert _findings(writer) == {}
    for section in ("models", "tools", "rollouts"):
        said = _section(writer, section)
        assert "0, 1 cancelled" in said
        assert " cancelled " in said.rpartition("Slowest")[2]
        assert " ok " not in said


@pytest.mark.parametrize(
    ("name", "values", "subject", "section"),
    [("execute_tool refund", TOOL, "refund", "tools"), ("chat m", CHAT, "m", "models")],
)
@pytest.mark.parametrize("status", ["finished", "cancelled"])
def test_cancelled_calls_are_a_finding_unless_their_rollouts_are_cancelled(
    writer: ProcessWriter, name: str, values: dict[str, str], subject: str, section: str, status: str
) -> None:
    traces = []
    for at in range(40):
        cancelled = {"error": "asyncio.exceptions.CancelledError"} if at < 10 else {}
        traces.append(f"{writer.span(name, at, at + 0.5, values, **cancelled).trace_id:032x}")
    body = {"rl.rollout.status": [status] * 40, "rl.rollout.trace_id": traces}
    writer.event("rl.trajectories", 1, body, {"rl.trajectories.source": "agent"})
    found = _findings(writer)
    if status == "cancelled":
        assert {code: finding.text for code, finding in found.items()} == {
            "cancelled_rollouts": "40 of 40 rollouts were cancelled, by the program or a time limit of it."
        }
        return
    finding = found["cancelled_calls"]
    assert (finding.severity.value, finding.subject, finding.section) == ("warning", subject, section)
    kind = section.removesuffix("s")
    assert finding.text == f"10 of 40 calls of {kind} {subject} were cancelled, by the program or a time limit of it."
    assert finding.cost == 0.25


def test_a_workflow_is_no_agent_and_its_run_is_a_rollout(writer: ProcessWriter) -> None:
    flow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "crew"}
    for at in range(3):
        root = writer.span("invoke_workflow crew", at, at + 0.9, flow)
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "writer"}
        writer.span("invoke_agent writer", at, at + 0.5, agent, parent=root)
    writer.write()
    collected = Collected(Reader(find_run(writer.folder.parent)), load()).read(lambda _: None)
    assert [(one.name, one.number) for one in statistics.agents(collected)] == [("writer", 3)]
    assert [(one.name, one.number) for one in statistics.workflows(collected)] == [("crew", 3)]
    assert rollouts.of_run(collected).statistics.number == 3
