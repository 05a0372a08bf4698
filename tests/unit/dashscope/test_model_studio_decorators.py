"""The package's own decorators: with them and what records their spans, each call has one span and counts once."""

from __future__ import annotations

import asyncio
import inspect

import dashscope
import pytest
from dashscope.finetune.reinforcement import (
    AbstractRewardProcessor,
    AbstractRolloutProcessor,
    Reward,
    RewardInput,
    RewardOutput,
    RolloutInput,
    RolloutOutput,
)
from dashscope.finetune.reinforcement.common.model_types import FunctionType
from dashscope.finetune.reinforcement.component.func_manager import FuncManager
from dashscope.finetune.reinforcement.component.observability.genai import _core
from dashscope.finetune.reinforcement.component.observability.genai.llm_dashscope import (
    instrument_dashscope_generation_call,
)
from dashscope.finetune.reinforcement.component.observability.genai.llm_span import observe_llm
from dashscope.finetune.reinforcement.component.observability.processor_span import (
    observe_processor,
    trace_processor_span,
)
from opentelemetry.trace import StatusCode
from support.fake_dashscope import USAGE, answer, choice

import otel_rl

MESSAGES = [{"role": "user", "content": "2+2?"}]
pytestmark = pytest.mark.usefixtures("instrumented")


@pytest.fixture(params=[False, True], ids=["decorators off", "decorators on"])
def enabled(request, monkeypatch):
    """The package's switch."""
    if request.param:
        monkeypatch.setenv("ENABLE_TRAJECTORY", "true")
        if not _core.GENAI_AVAILABLE:
            pytest.skip("loongsuite-util-genai is not installed here")
    return request.param


def tools():
    """The decorator as the program gets it."""
    from dashscope.finetune.reinforcement.component.observability import observe_tool

    return observe_tool


def question():
    metadata = {"job_id": "job", "sample_id": "s-1", "rollout_id": "ro-1", "attempt_id": "2"}
    resource = {"model_name": "tiny", "base_url": "http://127.0.0.1", "api_key": "none"}
    return RolloutInput(messages=MESSAGES, model_resource=resource, request_metadata=metadata)


@pytest.mark.parametrize("decorator", [observe_processor, trace_processor_span(logical_kind="Rollout")])
@pytest.mark.parametrize("raises", [False, True])
def test_a_decorated_rollout_is_one_span_with_the_attributes_of_both(recorded, enabled, decorator, raises):
    class Agent(AbstractRolloutProcessor):
        @decorator
        async def process(self, input_data):
            if raises:
                raise ValueError("secret")
            return RolloutOutput()

    running = Agent().process(question())
    if raises:
        with pytest.raises(ValueError, match="secret"):
            asyncio.run(running)
    else:
        asyncio.run(running)
    [span] = recorded.spans
    assert span.name == "rl.rollout"
    assert span.attributes["rl.rollout.id"] == "ro-1"
    assert span.attributes.get("gen_ai.span.kind") == ("ROLLOUT" if enabled else None)
    assert span.attributes.get("bailian.agentic_rl.sample_id") == ("s-1" if enabled else None)
    assert span.status.status_code is (StatusCode.ERROR if raises else StatusCode.UNSET)
    assert span.attributes.get("error.type") == ("ValueError" if raises else None)
    assert span.events == ()
    assert "secret" not in span.to_json()


def test_a_decorated_reward_is_one_span(recorded, enabled):
    class Right(AbstractRewardProcessor):
        @observe_processor
        def process(self, input_data):
            return RewardOutput(reward=Reward(reward_score=1.0))

    Right().process(RewardInput(agent_output={}))
    [span] = recorded.spans
    assert span.name == "rl.reward"
    assert span.attributes.get("agentic_rl.result.reward_score") == (1.0 if enabled else None)


def test_a_span_of_the_decorator_s_own_outside_of_our_rollouts_stays(recorded, monkeypatch):
    monkeypatch.setenv("ENABLE_TRAJECTORY", "true")

    class NoProcessor:
        @trace_processor_span(logical_kind="Rollout")
        def process(self, input_data):
            return None

    with otel_rl.tool("search"):
        NoProcessor().process(question())
    assert [span.name for span in recorded.spans] == ["invoke_rollout NoProcessor", "execute_tool search"]


def test_the_server_s_entry_span_stays_beside_the_rollout(recorded, enabled):
    class Agent(AbstractRolloutProcessor):
        @observe_processor
        def process(self, input_data):
            return RolloutOutput()

    asyncio.run(FuncManager(FunctionType.ROLLOUT, Agent()).processes(question()))
    assert [span.name for span in recorded.spans] == ["rl.rollout", *(["invoke_agentic_rl"] if enabled else [])]


@pytest.mark.parametrize("form", ["bare", "named", "async"])
def test_a_marked_tool_is_one_span_and_counts_once(recorded, enabled, form):
    def add(a, b=2):
        if b == 0:
            raise ValueError("secret")
        return a + b

    async def slow_add(a, b=2):
        return add(a, b)

    given = {"bare": add, "named": add, "async": slow_add}[form]
    tool = tools()(name="plus")(given) if form == "named" else tools()(given)
    name = "plus" if form == "named" else given.__name__
    assert tool.__name__ == given.__name__
    assert inspect.signature(tool) == inspect.signature(given)
    assert inspect.iscoroutinefunction(tool) is (form == "async")
    calls = (lambda *values: asyncio.run(tool(*values))) if form == "async" else tool
    with otel_rl.rollout(rollout_id="r"):
        assert calls(2) == 4
        with pytest.raises(ValueError, match="secret"):
            calls(2, 0)
    *spans, rollout = recorded.spans
    assert [span.name for span in spans] == [f"execute_tool {name}"] * 2
    assert [span.attributes["gen_ai.tool.name"] for span in spans] == [name] * 2
    assert [span.status.status_code is StatusCode.ERROR for span in spans] == [False, True]
    assert spans[1].attributes["error.type"] == "ValueError"
    assert (rollout.attributes["rl.rollout.tool_calls"], rollout.attributes["rl.rollout.tool_errors"]) == (2, 1)


def test_a_tool_of_an_object_takes_no_object_as_argument(recorded, content):
    class Calculator:
        @tools()
        def add(self, a):
            return a + 1

    assert Calculator().add(1) == 2
    assert recorded.span("execute_tool add").attributes["gen_ai.tool.call.arguments"] == '{"a": 1}'


def test_a_client_that_the_program_traces_is_one_span_and_its_tokens_count_once(recorded, server, enabled):
    from dashscope.aigc.generation import Generation

    class Traced(Generation):
        call = classmethod(Generation.call.__func__)

    instrument_dashscope_generation_call(Traced)
    server.answers.append((200, answer(choice("4"))))
    with otel_rl.rollout(rollout_id="r"):
        Traced.call("qwen-plus", messages=MESSAGES)
    call, rollout = recorded.spans
    assert call.instrumentation_scope.name == ("opentelemetry.util.genai.handler" if enabled else "otel_rl.dashscope")
    assert call.attributes["gen_ai.usage.output_tokens"] == USAGE["output_tokens"]
    assert rollout.attributes["rl.rollout.output_tokens"] == USAGE["output_tokens"]
    points = recorded.metrics()["gen_ai.client.token.usage"]
    assert sum(point.sum for point in points) == USAGE["total_tokens"]


def test_a_marked_call_around_the_client_is_one_span_too(recorded, server, enabled):
    @observe_llm(provider="ours")
    def ask(model, messages):
        return dashscope.Generation.call(model=model, messages=messages)

    server.answers.append((200, answer(choice("4"))))
    with otel_rl.rollout(rollout_id="r"):
        ask(model="qwen-plus", messages=MESSAGES)
    _, rollout = recorded.spans
    assert rollout.attributes["rl.rollout.model_calls"] == 1
    assert rollout.attributes["rl.rollout.output_tokens"] == USAGE["output_tokens"]
