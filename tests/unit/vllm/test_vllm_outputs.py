"""What vLLM says of a request becomes tokens, reasons and times; the objects are made by hand, vLLM is not needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from otel_rl.inference.engine_requests import MOST_REASONS, EngineRequests
from otel_rl.instrumentors.vllm import async_requests
from otel_rl.instrumentors.vllm.engines import model_of, sampling_values
from otel_rl.instrumentors.vllm.outputs import add_output, times_of, versions_of
from otel_rl.semconv import attributes


def stats(**changes):
    values = {
        "num_generation_tokens": 5,
        "arrival_time": 1.7e9,
        "queued_ts": 100.0,
        "scheduled_ts": 100.25,
        "first_token_ts": 100.75,
        "last_token_ts": 102.75,
        "first_token_latency": 0.8,
    }
    return SimpleNamespace(**values | changes)


def candidate(tokens, reason="stop", versions=()):
    labels = [SimpleNamespace(version=version, start=number, end=number + 1) for number, version in enumerate(versions)]
    return SimpleNamespace(token_ids=list(range(tokens)), finish_reason=reason, weight_versions=labels)


def output(*candidates, prompt=3, metrics=None, cached=None):
    return SimpleNamespace(
        prompt_token_ids=[1] * prompt, outputs=list(candidates), metrics=metrics, num_cached_tokens=cached
    )


def test_times_are_differences_of_the_engines_own_clock():
    assert times_of(stats()) == {
        attributes.RL_ENGINE_QUEUE_TIME: 0.25,
        attributes.RL_ENGINE_TIME_TO_FIRST_TOKEN: 0.8,
        attributes.RL_ENGINE_PREFILL_TIME: 0.5,
        attributes.RL_ENGINE_DECODE_TIME: 2.0,
        attributes.RL_ENGINE_REQUEST_TIME: 2.75,
        attributes.RL_ENGINE_DECODE_THROUGHPUT: 2.0,
    }


@pytest.mark.parametrize(
    ("missing", "unknown"),
    [
        ("queued_ts", attributes.RL_ENGINE_QUEUE_TIME),
        ("scheduled_ts", attributes.RL_ENGINE_PREFILL_TIME),
        ("first_token_ts", attributes.RL_ENGINE_DECODE_TIME),
        ("last_token_ts", attributes.RL_ENGINE_REQUEST_TIME),
    ],
)
def test_a_moment_that_has_not_come_gives_no_time(missing, unknown):
    found = times_of(stats(**{missing: 0.0}))
    assert unknown not in found
    assert all(value >= 0 for value in found.values())


def test_one_token_has_no_throughput_of_further_tokens():
    assert attributes.RL_ENGINE_DECODE_THROUGHPUT not in times_of(stats(num_generation_tokens=1))


def test_without_statistics_there_are_tokens_and_no_times():
    requests = EngineRequests()
    add_output(requests, output(candidate(4), candidate(6, "length")))
    assert (requests.input_tokens, requests.output_tokens, requests.profiled) == (3, 10, 0)
    found = requests.attributes()
    assert found[attributes.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop", "length")
    assert found[attributes.RL_ENGINE_TRUNCATED_SAMPLES] == 1
    assert attributes.RL_ENGINE_QUEUE_TIME not in found


def test_means_are_of_the_requests_that_have_times():
    requests = EngineRequests()
    add_output(requests, output(candidate(4), metrics=stats(), cached=2))
    add_output(requests, output(candidate(4), metrics=stats(scheduled_ts=100.75), cached=1))
    add_output(requests, output(candidate(4)))
    found = requests.attributes()
    assert found[attributes.RL_ENGINE_REQUESTS] == 3
    assert found[attributes.RL_ENGINE_PROFILED_REQUESTS] == 2
    assert found[attributes.RL_ENGINE_QUEUE_TIME] == 0.5
    assert found[attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] == 3


def test_reasons_of_a_large_batch_are_counted_and_not_listed():
    requests = EngineRequests()
    for _ in range(MOST_REASONS + 1):
        add_output(requests, output(candidate(1, "length")))
    found = requests.attributes()
    assert attributes.GEN_AI_RESPONSE_FINISH_REASONS not in found
    assert found[attributes.RL_ENGINE_TRUNCATED_SAMPLES] == MOST_REASONS + 1
    assert requests.reasons == ["length"] * (MOST_REASONS + 1)


def test_versions_of_weights_are_named_once_and_in_their_order_with_their_tokens():
    answers = [output(candidate(1, versions=["7", "8"])), output(candidate(1, versions=["8"]))]
    assert versions_of(answers) == {
        attributes.RL_INFERENCE_WEIGHT_VERSION: "8",
        attributes.RL_INFERENCE_WEIGHT_VERSIONS: ("7", "8"),
        attributes.RL_INFERENCE_WEIGHT_VERSION_TOKENS: (1, 2),
    }
    assert versions_of([output(candidate(1, versions=["7"]))]) == {attributes.RL_INFERENCE_WEIGHT_VERSION: "7"}
    assert versions_of([output(candidate(1))]) == {}


def test_what_is_no_output_of_generation_is_counted_as_a_request_without_tokens():
    requests = EngineRequests()
    add_output(requests, object())
    assert (requests.requests, requests.input_tokens, requests.reasons) == (1, 0, [])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"served_model_name": "tiny"}, "tiny"),
        ({"served_model_name": ["tiny", "alias"]}, "tiny"),
        ({"served_model_name": None, "model": "/models/tiny"}, "/models/tiny"),
        ({}, ""),
    ],
)
def test_the_model_is_named_as_the_engine_serves_it(config, expected):
    engine = SimpleNamespace(model_config=SimpleNamespace(**config))
    assert model_of(engine) == expected
    assert model_of(SimpleNamespace(llm_engine=engine)) == expected


def sampling(**changes):
    values = {
        "n": 1,
        "temperature": 0.5,
        "top_p": 1.0,
        "top_k": 0,
        "seed": None,
        "max_tokens": 16,
        "stop": [],
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
    return SimpleNamespace(**values | changes)


def test_parameters_that_are_in_use_become_attributes():
    assert sampling_values(sampling(n=4, top_k=-1, stop=["</s>"])) == {
        attributes.GEN_AI_REQUEST_CHOICE_COUNT: 4,
        attributes.GEN_AI_REQUEST_TEMPERATURE: 0.5,
        attributes.GEN_AI_REQUEST_TOP_P: 1.0,
        attributes.GEN_AI_REQUEST_MAX_TOKENS: 16,
        attributes.GEN_AI_REQUEST_STOP_SEQUENCES: ["</s>"],
    }


def test_requests_with_parameters_of_their_own_have_none_in_common():
    same, other = sampling(), sampling()
    assert sampling_values([same, same]) == sampling_values(same)
    assert sampling_values([same, other]) == sampling_values([]) == sampling_values(None) == {}


def test_log_probabilities_are_counted_whatever_holds_them():
    class Flat:
        """Stands for ``FlatLogprobs``, which is a sequence of a class of its own."""

        def __len__(self):
            return 4

    one, two, three = candidate(3), candidate(4), candidate(5)
    one.logprobs, two.logprobs, three.logprobs = [{1: object()}] * 3, Flat(), None
    requests = EngineRequests()
    add_output(requests, output(one, two))
    add_output(requests, output(three))
    assert requests.attributes()[attributes.RL_INFERENCE_LOGPROBS_COUNT] == 7


def test_without_log_probabilities_there_is_no_number_of_them():
    requests = EngineRequests()
    add_output(requests, output(candidate(3)))
    assert attributes.RL_INFERENCE_LOGPROBS_COUNT not in requests.attributes()


@pytest.mark.parametrize(("kind", "expected"), [("CUMULATIVE", 3), ("DELTA", 6)])
def test_log_probabilities_of_a_streamed_request_are_those_of_all_its_tokens(kind, expected, recorded):
    parameters = SimpleNamespace(output_kind=SimpleNamespace(name=kind))
    request = async_requests.AsyncRequest(type("Engine", (), {})(), parameters, "r", has_span=True)
    for number in (1, 2, 3):
        given = candidate(number)
        given.index, given.logprobs = 0, [{}] * number
        request.observe(SimpleNamespace(outputs=[given], prompt_token_ids=[1], finished=True, metrics=None))
    request.finish(None)
    assert recorded.span("text_completion").attributes[attributes.RL_INFERENCE_LOGPROBS_COUNT] == expected
