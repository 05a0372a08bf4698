"""What goes over the wire in `_meta`, and whose span the receiver's one is below."""

from __future__ import annotations

import contextvars
import copy
import json

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from support.mcp_sessions import IS_VERSION_1, connected, session, text_of

import otel_rl
from otel_rl.instrumentors.mcp import McpInstrumentor
from otel_rl.instrumentors.mcp.connections import Connection, over_http
from otel_rl.instrumentors.mcp.operations import McpRequest
from otel_rl.instrumentors.mcp.receiving import ReceivedRequest
from otel_rl.instrumentors.mcp.sending import SentRequest
from otel_rl.semconv import attributes as names
from otel_rl.telemetry import propagation


@pytest.fixture
def rollout():
    """A rollout's baggage, and an entry of the program's own."""
    context = baggage.set_baggage(names.RL_ROLLOUT_ID, "r-1", baggage.set_baggage("tenant", "secret"))
    token = attach(context)
    yield
    detach(token)


async def meta_seen(server, **settings):
    async with session(server) as opened:
        return json.loads(text_of(await opened.call_tool("meta", {}, **settings)))


async def test_nothing_is_sent_when_propagation_is_off(instrumented, url, rollout, monkeypatch):
    from otel_rl.core import settings

    monkeypatch.setenv("OTEL_RL_PROPAGATE", "off")
    settings.reset()
    try:
        assert not {"traceparent", "baggage"} & set(await meta_seen(url))
    finally:
        monkeypatch.undo()
        settings.reset()


async def test_a_trace_context_of_the_program_stays_as_it_is(instrumented, url):
    mine = "00-11111111111111111111111111111111-2222222222222222-01"
    given = {"traceparent": mine, "note": "kept"}
    seen = await meta_seen(url, meta=given)
    assert seen["traceparent"] == mine
    assert seen["note"] == "kept"
    assert given == {"traceparent": mine, "note": "kept"}


async def test_the_programs_request_is_not_changed(instrumented, url):
    from mcp import types

    parameters = types.CallToolRequestParams(name="add", arguments={"a": 1, "b": 2})
    request = types.CallToolRequest(method="tools/call", params=parameters)
    sent = types.ClientRequest(request) if IS_VERSION_1 else request
    before = copy.deepcopy(sent)
    async with session(url) as opened:
        result = await opened.send_request(sent, types.CallToolResult)
    assert text_of(result) == "3"
    assert sent == before
    assert vars(sent) == vars(before)


@pytest.mark.parametrize(
    ("connection", "goes"),
    [
        (over_http("http://10.0.0.7:8000/mcp"), True),
        (over_http("https://mcp.example.com/mcp"), False),
        (Connection(), False),
    ],
)
def test_our_baggage_goes_to_private_hosts_only_and_the_span_everywhere(instrumented, rollout, connection, goes):
    sent = SentRequest(McpRequest("tools/list", None), connection).start()
    meta: dict[str, str] = {}
    sent.inject(meta, others=True)
    sent.answered({})
    assert "traceparent" in meta
    assert (names.RL_ROLLOUT_ID in meta["baggage"]) is goes
    assert "tenant=secret" in meta["baggage"]


@pytest.mark.parametrize("meta", [None, {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}])
def test_a_request_belongs_to_no_earlier_request_of_its_session(instrumented, rollout, meta):
    earlier = trace.get_tracer("server").start_span("POST /mcp")
    token = attach(trace.set_span_in_context(earlier))
    earlier.end()
    try:
        request = ReceivedRequest(McpRequest("tools/list", None, 2), over_http()).start(meta)
        request.answers({"tools": []})
        request.end()
    finally:
        detach(token)
    span = instrumented.span("tools/list")
    assert span.context.trace_id != earlier.get_span_context().trace_id
    assert (span.parent is not None) is (meta is not None)
    # Without a trace of its own, a request keeps what the process was started inside.
    assert (names.RL_ROLLOUT_ID in span.attributes) is (meta is None)


def handled(meta, inside):
    """A request with ``meta``, and ``inside`` called while it is handled."""
    request = ReceivedRequest(McpRequest("tools/list", None, 2), over_http()).start(meta)
    inside()
    request.answers({"tools": []})
    request.end()


def test_a_reward_in_a_handler_counts_in_the_rollout_that_has_asked_and_not_in_the_one_that_opened_the_session(
    instrumented,
):
    with otel_rl.rollout("opens"):
        session_task = contextvars.copy_context()
        carrier: dict[str, str] = {}
        with otel_rl.rollout("asks"):
            propagation.inject(carrier, "localhost")
            session_task.run(handled, carrier, lambda: otel_rl.reward("score", 2.0))
    rewards = {
        span.attributes[names.RL_ROLLOUT_ID]: span.attributes.get(names.RL_ROLLOUT_REWARD)
        for span in instrumented.spans
        if span.name == "rl.rollout"
    }
    assert rewards == {"opens": None, "asks": 2.0}


def test_a_request_of_another_process_counts_in_no_rollout_of_this_one(instrumented):
    with otel_rl.rollout("opens"):
        handled({"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}, lambda: otel_rl.reward("score", 2.0))
    assert names.RL_ROLLOUT_REWARD not in instrumented.span("rl.rollout").attributes


def test_a_request_without_a_trace_has_no_ids_of_the_rollout_that_opened_its_session_once_that_is_over(instrumented):
    with otel_rl.rollout("opens"):
        session_task = contextvars.copy_context()
    session_task.run(handled, None, lambda: None)
    span = instrumented.span("tools/list")
    assert span.parent is None
    assert names.RL_ROLLOUT_ID not in span.attributes


def test_a_request_without_a_trace_is_inside_what_is_open_around_it(instrumented):
    with trace.get_tracer("server").start_as_current_span("POST /mcp") as around:
        request = ReceivedRequest(McpRequest("tools/list", None, 2), over_http()).start({})
        request.end(ValueError("x"))
    assert instrumented.span("tools/list").parent.span_id == around.get_span_context().span_id


async def test_both_ends_in_one_process_are_one_span_each(instrumented):
    async with connected() as opened:
        instrumented.clear()
        with trace.get_tracer("program").start_as_current_span("turn"):
            assert text_of(await opened.call_tool("add", {"a": 2, "b": 3})) == "5"
    ours = {span.kind.name: span for span in instrumented.spans if span.name == "tools/call add"}
    assert len([span for span in instrumented.spans if span.name == "tools/call add"]) == 2
    assert ours["SERVER"].parent.span_id == ours["CLIENT"].context.span_id
    assert {span.instrumentation_scope.name for span in ours.values()} == {"otel_rl.mcp"}


async def test_without_us_the_library_works_as_before(recorded, url):
    McpInstrumentor().instrument(skip_dep_check=True)
    McpInstrumentor().uninstrument()
    seen = await meta_seen(url)
    assert [span for span in recorded.spans if span.instrumentation_scope.name == "otel_rl.mcp"] == []
    assert ("traceparent" in seen) is not IS_VERSION_1
