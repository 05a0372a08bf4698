"""Where another instrumentor has a span for the call, ours adds to it: no second span, no second token count."""

from __future__ import annotations

from typing import Any

import openai
import pytest
import wrapt
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode
from support.fake_openai import VLLM

import otel_rl
from otel_rl.inference import ownership
from otel_rl.instrumentors.openai import OpenAIInstrumentor

OURS = "otel_rl.openai"
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def official():
    """The official instrumentor, as it is installed beside ours."""
    module = pytest.importorskip("opentelemetry.instrumentation.genai.openai")
    instrumentor = module.OpenAIInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    yield instrumentor
    instrumentor.uninstrument()


CALLS = {
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(),
    "chat stream": lambda c: list(c.chat.completions.create(**CHAT, stream=True)),
    "embeddings": lambda c: c.embeddings.create(model="tiny", input="x"),
    "responses": lambda c: c.responses.create(model="tiny", input="x"),
}


@pytest.mark.parametrize("shape", CALLS)
def test_the_official_span_is_enriched_and_counted_once(shape, official, recorded, server, client):
    if not hasattr(client, shape.split()[0]):
        pytest.skip(f"this version of openai has no {shape}")
    server.extra = VLLM
    server.failures = 1
    CALLS[shape](client)
    (span,) = recorded.spans
    assert span.instrumentation_scope.name.startswith("opentelemetry.instrumentation.genai")
    assert span.attributes["rl.inference.retries"] == 1
    if shape.startswith("chat") and shape != "chat stream":
        assert span.attributes["rl.engine.queue_time"] == pytest.approx(0.002)
    if shape == "chat stream":
        assert span.attributes["rl.inference.stream.ended"] == "completed"
    tokens = recorded.metrics().get("gen_ai.client.token.usage", [])
    kinds = [point.attributes["gen_ai.token.type"] for point in tokens]
    assert len(kinds) == len(set(kinds))
    assert server.requests[0][1]["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


def test_an_error_in_an_answer_counts_in_the_trajectory_and_leaves_the_official_span_as_it_is(
    official, recorded, server, client
):
    server.extra = {"choices": [], "error": {"code": "overloaded"}}
    with otel_rl.rollout():
        assert client.chat.completions.create(**CHAT).choices == []
    (span,) = [one for one in recorded.spans if one.name != "rl.rollout"]
    assert span.instrumentation_scope.name.startswith("opentelemetry.instrumentation.genai")
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in span.attributes
    assert recorded.span("rl.rollout").attributes["rl.rollout.model_errors"] == 1


def test_what_the_official_instrumentor_does_not_see_is_ours(official, recorded, client):
    client.completions.create(model="tiny", prompt="x")
    client.post("/completions", body={"model": "tiny", "prompt": "x"}, cast_to=object)
    assert [span.instrumentation_scope.name for span in recorded.spans] == ["otel_rl.openai"] * 2


@pytest.mark.parametrize(
    ("scope", "attributes", "is_model_call"),
    [
        ("opentelemetry.instrumentation.openai.v1", {}, True),
        ("openinference.instrumentation.openai", {}, True),
        ("openinference.instrumentation.openai_agents", {}, False),
        ("openinference.instrumentation.openai_agents", {"openinference.span.kind": "LLM"}, True),
        ("openinference.instrumentation.openai_agents", {"openinference.span.kind": "AGENT"}, False),
        ("langfuse-sdk", {"langfuse.observation.type": "generation"}, True),
        ("langfuse-sdk", {"langfuse.observation.type": "span"}, False),
        ("any.other", {"gen_ai.operation.name": "chat"}, True),
        ("any.other", {"gen_ai.operation.name": "execute_tool"}, False),
        ("any.other", {}, False),
        ("otel_rl.openai", {"gen_ai.operation.name": "chat"}, False),
        ("otel_rl.litellm", {"gen_ai.operation.name": "chat"}, True),
        ("opentelemetry.instrumentation.openai.v10", {}, False),
    ],
)
def test_a_current_span_of_another_package_is_recognised_as_a_model_call(scope, attributes, is_model_call, recorded):
    tracer = recorded.tracer_provider.get_tracer(scope)
    with tracer.start_as_current_span("x", attributes=attributes) as span:
        assert ownership.inference_span(OURS, context.get_current()) is (span if is_model_call else None)


def test_a_span_of_another_provider_leaves_by_another_pipeline_and_is_no_owner(recorded, client):
    tracer = TracerProvider().get_tracer("logfire.openai")
    with tracer.start_as_current_span("Chat", attributes={"gen_ai.operation.name": "chat"}):
        client.chat.completions.create(**CHAT)
    (span,) = recorded.spans
    assert span.instrumentation_scope.name == OURS
    assert len(recorded.metrics()["gen_ai.client.operation.duration"]) == 1


def test_an_announced_span_of_another_provider_is_no_owner(recorded, client):
    span = TracerProvider().get_tracer("openinference.instrumentation.langchain").start_span("ChatOpenAI")
    ownership.announce(span)
    client.chat.completions.create(**CHAT)
    span.end()
    assert [one.instrumentation_scope.name for one in recorded.spans] == [OURS]


def test_a_tool_inside_of_a_tool_span_of_another_provider_has_its_own(recorded):
    tracer = TracerProvider().get_tracer("logfire.pydantic_ai")
    with tracer.start_as_current_span("execute_tool search", attributes={"gen_ai.operation.name": "execute_tool"}):
        with otel_rl.tool("search"):
            pass
    assert [span.name for span in recorded.spans] == ["execute_tool search"]


@pytest.mark.parametrize(("name", "is_model_call"), [("chat tiny", True), ("chat None", True), ("enter app", False)])
def test_a_span_of_loongsuite_is_known_by_its_name_until_it_ends(recorded, name, is_model_call):
    with recorded.tracer_provider.get_tracer("opentelemetry.util.genai.handler").start_as_current_span(name) as span:
        assert ownership.inference_span(OURS, context.get_current()) is (span if is_model_call else None)
    with recorded.tracer_provider.get_tracer("of.the.program").start_as_current_span(name):
        assert ownership.inference_span(OURS, context.get_current()) is None


def test_the_official_context_key_means_that_the_current_span_owns_the_call(recorded):
    with recorded.tracer_provider.get_tracer("x").start_as_current_span("x") as span:
        token = context.attach(context.set_value("opentelemetry.genai.client.inference.context", object()))
        try:
            assert ownership.inference_span(OURS, context.get_current()) is span
        finally:
            context.detach(token)
    assert ownership.inference_span(OURS, context.get_current()) is None


def test_a_span_that_stands_for_the_call_gets_no_second_beside_it(recorded, client):
    tracer = recorded.tracer_provider.get_tracer("opentelemetry.instrumentation.openai.v1")
    with tracer.start_as_current_span("openai.chat"):
        client.chat.completions.create(**CHAT)
    span = recorded.span("openai.chat")
    assert len(recorded.spans) == 1
    assert span.attributes["rl.inference.retries"] == 0
    assert span.status.status_code is StatusCode.UNSET
    assert "gen_ai.client.token.usage" not in recorded.metrics()
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_span_that_is_announced_stands_for_the_calls_until_it_ends(recorded, server, client):
    span = recorded.tracer_provider.get_tracer("openinference.instrumentation.langchain").start_span("ChatOpenAI")
    ownership.announce(span)
    client.chat.completions.create(**CHAT)
    assert recorded.spans == []
    assert server.requests[0][1]["traceparent"].split("-")[2] == f"{span.get_span_context().span_id:016x}"
    span.end()
    client.chat.completions.create(**CHAT)
    assert [one.name for one in recorded.spans] == ["ChatOpenAI", "chat tiny"]
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.count == 2


@pytest.fixture
def wrapped_before():
    """``request`` as an instrumentor leaves it that wraps the method of the client's own class, before ours."""
    original = openai.OpenAI.request
    wrapper = wrapt.FunctionWrapper(original, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))
    openai.OpenAI.request = wrapper
    yield wrapper, original
    del openai.OpenAI.request


def test_a_wrapper_that_was_there_first_does_not_hide_the_call(wrapped_before, recorded, client):
    wrapper, original = wrapped_before
    client.chat.completions.create(**CHAT)
    assert [one.name for one in recorded.spans] == ["chat tiny"]
    OpenAIInstrumentor().uninstrument()
    assert wrapper.__wrapped__ is original
    OpenAIInstrumentor().instrument(skip_dep_check=True)


@pytest.mark.parametrize(
    ("scope", "attributes"),
    [
        ("openinference.instrumentation.openai", {}),
        ("openinference.instrumentation.smolagents", {"openinference.span.kind": "LLM"}),
        ("strands.telemetry.tracer", {"gen_ai.operation.name": "chat"}),
    ],
)
def test_metrics_are_ours_where_the_owner_of_the_span_emits_none(scope, attributes, recorded, client):
    with recorded.tracer_provider.get_tracer(scope).start_as_current_span("ChatCompletion", attributes=attributes):
        client.chat.completions.create(**CHAT)
    assert [one.name for one in recorded.spans] == ["ChatCompletion"]
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["gen_ai.request.model"] == "tiny"
