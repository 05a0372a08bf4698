"""Trace context and baggage of the caller: on the wire, and as the parents of calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import baggage, context

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def test_baggage_and_the_callers_trace_are_on_the_wire(recorded, server, client):
    tracer = recorded.tracer_provider.get_tracer("program")
    token = context.attach(baggage.set_baggage("rl.rollout.id", "r-1"))
    try:
        with tracer.start_as_current_span("rollout"):
            client.chat.completions.create(**CHAT)
    finally:
        context.detach(token)
    _, headers, _ = server.requests[0]
    assert headers["baggage"] == "rl.rollout.id=r-1"
    call = recorded.span("chat tiny")
    assert call.parent.span_id == recorded.span("rollout").context.span_id
    assert call.attributes["rl.rollout.id"] == "r-1"


@pytest.mark.parametrize(("url", "expected"), [("/chat/completions", True), ("https://api.example.com/v1/chat", False)])
def test_the_programs_baggage_stays_and_ours_goes_by_the_host_of_the_request(recorded, client, url, expected):
    from openai._models import FinalRequestOptions

    entries = baggage.set_baggage("customer", "secret", baggage.set_baggage("rl.rollout.id", "r-1"))
    token = context.attach(entries)
    try:
        with recorded.tracer_provider.get_tracer("program").start_as_current_span("rollout"):
            request = client._build_request(FinalRequestOptions(method="post", url=url, json_data={}))
    finally:
        context.detach(token)
    assert request.headers.get("baggage") == ("rl.rollout.id=r-1" if expected else None)
    assert "traceparent" in request.headers


def test_a_traceparent_that_the_program_sets_is_kept(server, client):
    mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.chat.completions.create(**CHAT, extra_headers={"traceparent": mine})
    assert server.requests[0][1]["traceparent"] == mine


async def test_parallel_calls_keep_their_parents(recorded, async_client):
    tracer = recorded.tracer_provider.get_tracer("program")

    async def rollout(number):
        with tracer.start_as_current_span(f"rollout {number}"):
            await async_client.chat.completions.create(**CHAT)

    await asyncio.gather(*(rollout(number) for number in range(5)))
    parents = {span.context.span_id for span in recorded.spans if span.name.startswith("rollout")}
    calls = [span for span in recorded.spans if span.name == "chat tiny"]
    assert len(calls) == 5
    assert {span.parent.span_id for span in calls} == parents


def test_suppressed_instrumentation_records_and_sends_nothing(recorded, server, client):
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    tracer = recorded.tracer_provider.get_tracer("program")
    with tracer.start_as_current_span("program"), suppress_instrumentation():
        client.chat.completions.create(**CHAT)
    assert [span.name for span in recorded.spans] == ["program"]
    assert "traceparent" not in server.requests[0][1]


@pytest.mark.parametrize("given", ["by the request", "by the client"])
def test_a_baggage_of_the_program_is_the_only_one(given, recorded, server, client):
    token = context.attach(baggage.set_baggage("rl.rollout.id", "r-1"))
    try:
        if given == "by the request":
            client.chat.completions.create(**CHAT, extra_headers={"Baggage": "mine=1"})
        else:
            client.with_options(default_headers={"Baggage": "mine=1"}).chat.completions.create(**CHAT)
    finally:
        context.detach(token)
    assert [value for name, value in server.header_lines[0] if name == "baggage"] == ["mine=1"]


def test_baggage_is_one_header_with_each_entry_once_also_when_the_call_is_sent_again(recorded, server, client):
    from otel_rl import rollout

    server.failures = 2
    with rollout(rollout_id="r1", sample_id="s1"):
        client.chat.completions.create(**CHAT)
    assert len(server.header_lines) == 3
    for lines in server.header_lines:
        [header] = [value for name, value in lines if name == "baggage"]
        names = [member.partition("=")[0] for member in header.split(",")]
        assert len(set(names)) == len(names)
        assert {"rl.rollout.id", "rl.sample.id"} <= set(names)
        assert sum(name == "traceparent" for name, _ in lines) == 1
