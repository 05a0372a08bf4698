"""LiteLLM needs no instrumentor: what is below it records each call, once, whatever that is."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import litellm
import pytest
from opentelemetry.trace import SpanKind

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.training import trajectories

MESSAGES = [{"role": "user", "content": "planted"}]
#: Model -> name of the span, provider, input and output tokens of a call, and of a stream.
MODELS = {
    "openai/tiny": ("chat tiny", "openai", (7, 3), (7, 3)),
    "hosted_vllm/tiny": ("chat tiny", "openai", (7, 3), (7, 3)),
    "anthropic/claude": ("chat claude", "anthropic", (17, 7), (17, 7)),
    "gemini/gemini-x": ("generate_content gemini-x", "gcp.gemini", (11, 7), (11, 7)),
    "ollama_chat/llama": ("chat llama", "ollama", (11, 7), (11, 7)),
    "ollama/llama": ("text_completion llama", "ollama", (11, 7), (11, 7)),
}


async def _stream(call):
    return [chunk async for chunk in await litellm.acompletion(**call, stream=True)]


SHAPES = {
    "sync": lambda call: litellm.completion(**call),
    "stream": lambda call: list(litellm.completion(**call, stream=True)),
    "async": lambda call: asyncio.run(litellm.acompletion(**call)),
    "async stream": lambda call: asyncio.run(_stream(call)),
    "router": lambda call: _router(call).completion(model="mine", messages=MESSAGES),
}


def _router(call: dict[str, Any]) -> litellm.Router:
    parameters = {key: value for key, value in call.items() if key != "messages"}
    return litellm.Router(model_list=[{"model_name": "mine", "litellm_params": parameters}], num_retries=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_each_call_is_one_span_with_its_tokens(model, shape, servers, instrumented):
    of_openai, others = servers
    name, provider, *tokens = MODELS[model]
    url = of_openai.base_url if provider == "openai" else others.url
    call = {"model": model, "messages": MESSAGES, "api_base": url, "api_key": "none"}
    if provider == "openai" and "stream" in shape:
        call["stream_options"] = {"include_usage": True}
    with otel_rl.rollout():
        SHAPES[shape](call)
        gc.collect()
    record_abandoned()
    (span,) = [span for span in instrumented.spans if span.kind is SpanKind.CLIENT]
    found = span.attributes
    assert (span.name, found["gen_ai.provider.name"]) == (name, provider)
    known = found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]
    assert known == tokens["stream" in shape]
    assert found.get("rl.inference.stream.ended") == ("completed" if "stream" in shape else None)
    trajectories.record()
    (row,) = [record.body for record in instrumented.events("rl.trajectories")]
    assert (row["rl.rollout.model_calls"], row["rl.rollout.input_tokens"]) == ([1], [known[0]])


def test_a_text_completion_is_one_span(servers, instrumented):
    litellm.text_completion(
        model="text-completion-openai/tiny", prompt="planted", api_base=servers[0].base_url, api_key="none"
    )
    (span,) = [span for span in instrumented.spans if span.kind is SpanKind.CLIENT]
    assert span.name == "text_completion tiny"
