"""``otel_rl.llm``: a model call of a client that is not instrumented has what an instrumented one's has."""

from __future__ import annotations

import asyncio
import json

import pytest

import otel_rl
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.inference.requests import CHAT, EMBEDDINGS, Endpoint, ModelRequest
from otel_rl.inference.servers import server
from otel_rl.telemetry import Scope
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import trajectories

ANSWER = {
    "model": "m-2",
    "choices": [{"message": {"role": "assistant", "content": "4"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 8, "completion_tokens": 3},
}


@pytest.fixture
def body(recorded):
    """Gives the columns of the rollouts that have ended."""
    trajectories._forget()

    def columns():
        trajectories.record()
        [record] = recorded.events("rl.trajectories")
        return record.body

    yield columns
    trajectories._forget()


def test_a_call_has_a_span_metrics_and_counts_in_its_rollout(recorded, body):
    with otel_rl.rollout(), otel_rl.llm("m", provider="mine", temperature=0.5, max_tokens=9) as call:
        call.usage(input_tokens=10, output_tokens=4, cached_tokens=2)
        call.finish("stop")
    span = recorded.span("chat m")
    assert span.kind.name == "CLIENT"
    assert span.parent.span_id == recorded.span("rl.rollout").context.span_id
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mine",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.response.finish_reasons": ("stop",),
    }.items() <= span.attributes.items()
    assert "server.address" not in span.attributes
    points = recorded.metrics()
    [duration] = points["gen_ai.client.operation.duration"]
    labels = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "mine", "gen_ai.request.model": "m"}
    assert (dict(duration.attributes), duration.count) == (labels, 1)
    assert {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]} == {
        "input": 10,
        "output": 4,
    }
    found = body()
    assert found["rl.rollout.model_calls"] == [1]
    assert found["rl.rollout.turns"] == [1]
    assert found["rl.rollout.input_tokens"] == [10]
    assert found["rl.rollout.output_tokens"] == [4]
    assert found["rl.rollout.stop_reason"] == ["stop"]


def test_a_decorated_function_is_read_and_returns_its_very_answer(recorded):
    @otel_rl.llm("m", operation="text_completion")
    def ask(prompt):
        return ANSWER

    assert ask("2+2") is ANSWER
    found = recorded.span("text_completion m").attributes
    assert found["gen_ai.usage.input_tokens"] == 8
    assert found["gen_ai.response.model"] == "m-2"
    assert found["gen_ai.response.finish_reasons"] == ("length",)
    assert found["gen_ai.provider.name"] == "_OTHER"


def test_an_object_of_another_protocol_is_no_answer(recorded):
    @otel_rl.llm("m")
    def ask():
        return {"status": "failed", "model": "x", "error": {"code": "y"}}

    ask()
    found = recorded.span("chat m").attributes
    assert "error.type" not in found
    assert "gen_ai.response.model" not in found


def test_a_failed_call_counts_as_failed(recorded, body):
    with otel_rl.rollout():
        with otel_rl.llm("m") as call:
            call.fail("timeout")
        with pytest.raises(OSError, match="gone"), otel_rl.llm("m"):
            raise OSError("gone")
        otel_rl.reward("exact", 0.0)
    kinds = [span.attributes.get("error.type") for span in recorded.spans if span.name == "chat m"]
    assert kinds == ["timeout", "OSError"]
    found = body()
    assert (found["rl.rollout.model_calls"], found["rl.rollout.model_errors"]) == ([2], [2])
    assert found["rl.rollout.suspect"] == [True]


def test_a_call_of_an_instrumented_client_inside_is_the_same_call(recorded, body):
    with otel_rl.rollout(), otel_rl.llm("m") as call:
        inner = InferenceCall(Scope("openai"), ModelRequest(CHAT, server("127.0.0.1", 80), {"model": "m"}))
        inner.answer.observe(ANSWER)
        inner.finish()
        call.finish("stop")
    span = recorded.span("chat m")
    assert span.attributes["gen_ai.usage.input_tokens"] == 8
    points = recorded.metrics()
    assert [point.count for point in points["gen_ai.client.operation.duration"]] == [1]
    assert sum(point.sum for point in points["gen_ai.client.token.usage"]) == 11
    found = body()
    assert (found["rl.rollout.model_calls"], found["rl.rollout.input_tokens"]) == ([1], [8])


def test_a_call_inside_whose_answer_is_parsed_after_the_block_counts_once(recorded, body):
    with otel_rl.rollout():
        with otel_rl.llm("m"):
            inner = InferenceCall(Scope("httpx"), ModelRequest(CHAT, server("127.0.0.1", 80), {"model": "m"}))
            inner.record_body_read(json.dumps(ANSWER).encode())
        inner.finish()
    found = body()
    assert (found["rl.rollout.model_calls"], found["rl.rollout.input_tokens"]) == ([1], [8])


def test_a_call_of_an_engine_inside_counts_once(recorded, body):
    with otel_rl.rollout(), otel_rl.llm("m") as call:
        inner = EngineCall(Scope("vllm"), "text_completion", "vllm", "m")
        inner.requests.add(5, 2, ["stop"])
        inner.finish()
        call.usage(input_tokens=5, output_tokens=2)
    found = body()
    assert (found["rl.rollout.model_calls"], found["rl.rollout.output_tokens"]) == ([1], [2])


def test_calls_at_once_count_each(recorded, body):
    @otel_rl.llm("m")
    async def ask(number):
        await asyncio.sleep(0)
        return ANSWER

    async def main():
        with otel_rl.rollout():
            await asyncio.gather(*(ask(number) for number in range(5)))

    asyncio.run(main())
    found = body()
    assert (found["rl.rollout.model_calls"], found["rl.rollout.output_tokens"]) == ([5], [15])


def test_a_streaming_generator_is_one_call_and_says_when_it_began_to_answer(recorded, body):
    def ask():
        with otel_rl.llm("m", stream=True) as call:
            for number in range(3):
                call.first_token()
                yield number
            call.usage(output_tokens=3)

    @otel_rl.llm("other")
    def decorated():
        yield from range(2)

    with otel_rl.rollout():
        assert list(ask()) == [0, 1, 2]
        assert list(decorated()) == [0, 1]
    assert recorded.span("chat m").attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert body()["rl.rollout.model_calls"] == [2]


def test_content_is_kept_only_where_it_is_wanted(recorded, monkeypatch):
    def ask():
        with otel_rl.llm("m", messages=[{"role": "user", "content": "2+2"}]) as call:
            call.answer("four")

    ask()
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    ask()
    without, with_content = (span.attributes for span in recorded.spans)
    assert "gen_ai.input.messages" not in without
    assert "gen_ai.output.messages" not in without
    assert json.loads(with_content["gen_ai.input.messages"])[0]["parts"][0]["content"] == "2+2"
    assert json.loads(with_content["gen_ai.output.messages"])[0]["parts"][0]["content"] == "four"


def test_odd_values_reach_nobody(recorded):
    with otel_rl.llm(7, provider=object(), temperature="hot", stop=object()) as call:
        call.usage(input_tokens=-1, output_tokens="many")
        call.finish(None)
        call.answer([object()])
        call.answer(None)
    [span] = recorded.spans
    assert "gen_ai.usage.output_tokens" not in span.attributes


def test_a_misspelt_operation_is_refused_with_the_accepted_ones():
    with pytest.raises(ValueError, match="text_completion"):
        otel_rl.llm("m", operation="completion")


def inside(operation, tokens):
    """A call of an instrumented client."""
    endpoint = EMBEDDINGS if operation == "embeddings" else Endpoint("", operation)
    call = InferenceCall(Scope("client"), ModelRequest(endpoint, server("127.0.0.1", 1), {"model": "inner"}))
    call.enter()
    given, made = tokens
    call.answer.observe({"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": made}})
    call.leave()
    call.finish()


def test_a_call_around_several_has_the_tokens_of_all_of_them(recorded, body):
    with otel_rl.rollout(), otel_rl.llm("m"):
        inside("chat", (10, 5))
        inside("chat", (20, 7))

    values = recorded.span("chat m").attributes
    assert (values["gen_ai.usage.input_tokens"], values["gen_ai.usage.output_tokens"]) == (30, 12)
    assert (body()["rl.rollout.input_tokens"], body()["rl.rollout.output_tokens"]) == ([30], [12])


def test_an_embedding_is_no_turn(recorded, body):
    with otel_rl.rollout():
        inside("embeddings", (4, 0))
        with otel_rl.llm("e", operation="embeddings") as call:
            call.usage(input_tokens=3)
        with otel_rl.llm("m") as call:
            call.usage(output_tokens=1)

    assert body()["rl.rollout.turns"] == [1]
    assert recorded.span("chat m").attributes["rl.rollout.turn"] == 1


def test_an_embedding_inside_of_a_call_does_not_stand_for_it(body):
    with otel_rl.rollout(), otel_rl.llm("m") as call:
        inside("embeddings", (4, 0))
        call.usage(output_tokens=50)

    assert body()["rl.rollout.model_calls"] == [1]
    assert body()["rl.rollout.output_tokens"] == [50]


def test_a_call_of_another_rollout_inside_does_not_stand_for_the_one_around_it(body):
    with otel_rl.rollout("outer"), otel_rl.llm("m") as call:
        with otel_rl.rollout("inner"):
            inside("chat", (4, 1))
        call.usage(input_tokens=9, output_tokens=50)

    found = body()
    assert found["rl.rollout.id"] == ["inner", "outer"]
    assert found["rl.rollout.model_calls"] == [1, 1]
    assert found["rl.rollout.output_tokens"] == [1, 50]
