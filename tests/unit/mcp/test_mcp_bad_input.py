"""Strangers, crashes and our own defects: the program gets what it gets without us."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanKind
from support.mcp_sessions import IS_VERSION_1, PROGRAM, connected, environment, session, spans_of

from otel_rl.instrumentors.mcp import McpInstrumentor, operations
from otel_rl.instrumentors.mcp.connections import over_http
from otel_rl.instrumentors.mcp.operations import McpRequest
from otel_rl.instrumentors.mcp.receiving import ReceivedRequest
from otel_rl.semconv import attributes as names
from otel_rl.tools.sizes import size_of

#: What a stranger may have put into `_meta`; the last two are refused by the library itself.
STRANGE = [
    {"traceparent": 7},
    {"traceparent": ["00", "x"], "baggage": {"rl.rollout.id": "x"}},
    {"traceparent": "not one"},
    {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
    {"traceparent": None, "tracestate": "a" * 100_000},
    {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "baggage": "%%%,=,rl.loop.iteration=many" * 100},
    {},
    "text",
    [1],
]


def talk(calls, spans=None):
    """Answers of a server that is spoken to line by line, as a stranger would."""
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    requests = [{"method": "initialize", "params": begin}, *calls]
    command = [sys.executable, str(PROGRAM), "stdio"]
    answers = []
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(spans),
    ) as process:
        for number, request in enumerate(requests):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **request}) + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
            if number == 0:
                process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        process.stdin.close()
        process.wait(60)
    return answers


def test_a_server_answers_strange_requests_as_without_us(spans_file):
    calls = [
        {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}}
        for meta in STRANGE
    ]
    calls += [
        {"method": "no/such", "params": {}},
        {"method": "tools/call", "params": {"name": 3}},
        {"method": "tools/call"},
        {"method": "tools/call", "params": {"name": "absent", "arguments": {}}},
        {"method": "tools/call", "params": {"name": "boom", "arguments": {"text": "no"}}},
    ]
    assert talk(calls, spans_file) == talk(calls)
    recorded = [span for span in spans_of(spans_file) if span["name"] == "tools/call add"]
    assert len(recorded) >= len(STRANGE) - 2
    assert all(span["kind"] == "SERVER" for span in recorded)
    others = [span for span in spans_of(spans_file) if span["name"] != "tools/call add"]
    refused = {span["name"]: span for span in others if names.RPC_RESPONSE_STATUS_CODE in span["attributes"]}
    if IS_VERSION_1:
        assert refused == {}
    else:
        # The client is to blame, and what it made up is in no name.
        codes = {name: span["attributes"][names.RPC_RESPONSE_STATUS_CODE] for name, span in refused.items()}
        assert codes == {"tools/call": "-32602", "_OTHER": "-32601"}
        assert {span["status"] for span in refused.values()} == {"UNSET"}
        assert not any(names.ERROR_TYPE in span["attributes"] for span in refused.values())
    with_parent = [span for span in recorded if span["parent"]]
    assert [span["parent"] for span in with_parent] == ["2" * 16]


async def test_names_that_the_server_does_not_know_are_no_labels_and_in_no_name_of_its_spans(instrumented):
    async with connected() as opened:
        instrumented.clear()
        instrumented.metrics()
        await opened.call_tool("add", {"a": 1, "b": 2})
        await opened.get_prompt("greet", {"name": "Ada"})
        await opened.call_tool("made up", {})
        with pytest.raises(Exception, match=r"Unknown prompt|Internal server error"):
            await opened.get_prompt("made up", {})
    found = {
        (one.attributes.get(names.GEN_AI_TOOL_NAME), one.attributes.get(names.GEN_AI_PROMPT_NAME))
        for one in instrumented.metrics()["mcp.server.operation.duration"]
        if one.attributes[names.MCP_METHOD_NAME] in ("tools/call", "prompts/get")
    }
    assert found == {("add", None), (None, "greet"), ("_OTHER", None), (None, "_OTHER")}
    received = {span.name: span for span in instrumented.spans if span.kind is SpanKind.SERVER}
    assert {"tools/call add", "prompts/get greet", "tools/call", "prompts/get"} <= set(received)
    assert received["tools/call"].attributes[names.GEN_AI_TOOL_NAME] == "made up"


class RefusedError(Exception):
    """An error of the protocol, as both versions of the library raise it."""

    def __init__(self, code):
        super().__init__("no")
        self.error = SimpleNamespace(code=code, message="no")


def invalid():
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as error:
        return error


@pytest.mark.parametrize(
    ("method", "error", "shown", "kind", "code"),
    [
        ("made/up", RefusedError(-32601), "_OTHER", None, "-32601"),
        ("prompts/list", RefusedError(-32601), "prompts/list", None, "-32601"),
        ("their/own", RefusedError(-32000), "their/own", "-32000", "-32000"),
        ("their/own", invalid(), "their/own", None, "-32602"),
        ("their/own", ValueError("no"), "their/own", "ValueError", None),
    ],
)
def test_a_method_is_a_label_where_the_server_may_have_it(instrumented, method, error, shown, kind, code):
    instrumented.metrics()
    ReceivedRequest(McpRequest(method, None, 2), over_http()).start(None).end(error)
    [point] = instrumented.metrics()["mcp.server.operation.duration"]
    assert point.attributes[names.MCP_METHOD_NAME] == shown
    assert point.attributes.get(names.ERROR_TYPE) == kind
    assert point.attributes.get(names.RPC_RESPONSE_STATUS_CODE) == code
    span = instrumented.span(shown)
    assert span.attributes[names.MCP_METHOD_NAME] == method
    assert span.attributes.get(names.ERROR_TYPE) == kind


async def outcomes(server):
    """What a program sees of calls that end in all ways, in a form that can be compared."""
    limit = timedelta(seconds=0.2) if IS_VERSION_1 else 0.2
    calls = [
        ("add", {"a": 1, "b": 2}, None),
        ("boom", {"text": "no"}, None),
        ("absent", {}, None),
        ("add", {"a": "x"}, None),
        ("block", {}, limit),
    ]
    seen = []
    async with session(server) as opened:
        seen.append(await opened.list_tools())
        for name, arguments, timeout in calls:
            try:
                seen.append(await opened.call_tool(name, arguments, timeout))
            except Exception as error:  # noqa: BLE001 - compared
                seen.append(error)
    return [(type(one), str(one) if isinstance(one, Exception) else one.model_dump()) for one in seen]


async def test_a_client_gets_the_same_results_and_exceptions_as_without_us(recorded, url):
    plain = await outcomes(url)
    McpInstrumentor().instrument(skip_dep_check=True)
    try:
        assert await outcomes(url) == plain
    finally:
        McpInstrumentor().uninstrument()


async def test_a_defect_of_ours_reaches_neither_end(instrumented, url, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    def defect(*_, **__):
        raise RuntimeError("ours")

    for name in ("labels", "details"):
        monkeypatch.setattr(operations.McpRequest, name, defect)
    async with session(url) as opened:
        result = await opened.call_tool("add", {"a": 2, "b": 3})
    assert result.content[0].text == "5"


async def test_a_call_that_fails_before_it_is_sent_raises_as_without_us(instrumented, url):
    async with session(url) as opened:
        pass
    instrumented.clear()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each version has its own
        await opened.call_tool("add", {"a": 1, "b": 2})
    (span,) = [span for span in instrumented.spans if span.kind is SpanKind.CLIENT]
    assert span.attributes[names.ERROR_TYPE]
    assert "otel_rl" not in type(caught.value).__module__


_TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters='"\\\\'))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)


@given(st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner), max_leaves=20))
def test_a_size_is_the_length_of_the_json_text(value):
    assert size_of(value) == len(json.dumps(value, separators=(",", ":")))


def test_of_large_values_only_as_many_parts_are_touched_as_are_counted():
    touched = 0

    class Watched(list):
        def __iter__(self):
            nonlocal touched
            for one in super().__iter__():
                touched += 1
                yield one

    wide = Watched([0] * 100_000)
    assert size_of(wide) > 100_000
    assert touched <= 10_000
    touched = 0
    size_of(Watched([wide] * 1000))
    assert touched <= 20_000


def test_sizes_are_bounded_and_never_fail():
    ring: list[object] = []
    ring.append(ring)
    assert size_of(ring) > 0
    assert size_of({"page": "x" * 1_000_000}) > 1_000_000
    assert size_of(object()) > 0
