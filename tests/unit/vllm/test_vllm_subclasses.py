"""Engines of a program's own classes: one span per call, and what the class does stays. The engine is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import otel_rl
from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.vllm import patch
from otel_rl.semconv import attributes


def _output(tokens):
    candidate = SimpleNamespace(token_ids=list(range(tokens)), finish_reason="stop", index=0)
    return SimpleNamespace(prompt_token_ids=[1, 2], outputs=[candidate], metrics=None, finished=True)


class _Core:
    """Stands for ``LLMEngine``."""

    model_config = SimpleNamespace(served_model_name="tiny")


def _module(chat_generates):
    """The methods of vLLM that are wrapped; ``chat`` calls ``generate`` in some versions."""

    class LLM:
        llm_engine = _Core()

        def generate(self, prompts, sampling_params=None, *, use_tqdm=True):
            return [_output(3) for _ in prompts]

        def chat(self, messages, sampling_params=None, *, use_tqdm=True):
            return self.generate([messages]) if chat_generates else [_output(3)]

        def sleep(self, level=1):
            return level

        def collective_rpc(self, method, timeout=None, args=(), kwargs=None):
            return [method]

    class AsyncLLM:
        model_config = SimpleNamespace(served_model_name="tiny")

        async def generate(self, prompt, sampling_params=None, request_id="", **_):
            yield _output(1)
            yield _output(3)

        async def add_request(self, request_id, *_, **__):
            return request_id

        async def collective_rpc(self, method):
            return [method]

    return SimpleNamespace(LLM=LLM, AsyncLLM=AsyncLLM)


@pytest.fixture(params=[False, True], ids=["0.32", "chat calls generate"])
def vllm(request, recorded):
    module = _module(request.param)
    patches = Patches()
    patch.patch_llm(module, patches)
    patch.patch_async_llm(module, patches)
    yield module
    patches.restore()


def _subclass(vllm):
    class Engine(vllm.LLM):
        def __init__(self):
            self.seen = []

        def generate(self, prompts, *args, **given):
            self.seen.append("generate")
            return list(reversed(super().generate(list(prompts), *args, **given)))

        def chat(self, *args, **given):
            self.seen.append("chat")
            return super().chat(*args, **given)

        def sleep(self, level=1):
            self.seen.append("sleep")
            return super().sleep(level=level + 1)

    return Engine()


def test_a_batch_of_a_subclass_is_one_call(vllm, recorded):
    engine = _subclass(vllm)
    assert len(engine.generate(("a", "b"), use_tqdm=False)) == 2
    assert engine.seen == ["generate"]
    [span] = recorded.spans
    assert span.name == "text_completion tiny"
    assert span.attributes[attributes.RL_ENGINE_REQUESTS] == 2
    assert span.attributes[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] == 6


def test_a_chat_of_a_subclass_is_one_call_also_where_it_generates(vllm, recorded):
    engine = _subclass(vllm)
    assert len(engine.chat([{"role": "user", "content": "hi"}])) == 1
    assert engine.seen[0] == "chat"
    [span] = recorded.spans
    assert span.name == "chat tiny"
    assert span.attributes[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] == 3


def test_an_operation_of_a_subclass_is_one(vllm, recorded):
    with otel_rl.step(1):
        assert _subclass(vllm).sleep() == 2
    [span] = [span for span in recorded.spans if span.name == "rl.sync"]
    assert span.attributes[attributes.RL_SYNC_OPERATION] == "sleep"


def test_a_class_that_generates_in_parts_makes_as_many_calls(vllm, recorded):
    class InParts(vllm.LLM):
        def generate(self, prompts, *args, **given):
            return [output for prompt in prompts for output in super(InParts, self).generate([prompt], *args, **given)]

    with otel_rl.rollout():
        assert len(InParts().generate(["a", "b", "c"])) == 3
    assert len([span for span in recorded.spans if span.name == "text_completion tiny"]) == 3
    assert recorded.span("rl.rollout").attributes[attributes.RL_ROLLOUT_MODEL_CALLS] == 3


async def test_a_request_of_an_asynchronous_subclass_is_one_call(vllm, recorded):
    class Engine(vllm.AsyncLLM):
        async def generate(self, prompt, *args, **given):
            async for output in super().generate(prompt.strip(), *args, **given):
                yield output

    outputs = [output async for output in Engine().generate(" a ", None, "r-1")]
    assert len(outputs) == 2
    [span] = recorded.spans
    assert span.attributes[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert span.attributes[attributes.GEN_AI_RESPONSE_ID] == "r-1"
