"""How many log-probabilities an answer has, in each form of it; they are counted and not kept."""

from __future__ import annotations

import json

import pytest

from otel_rl.inference.answers import Answer
from otel_rl.inference.http.protocols import EngineAnswer
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer

NAME = "rl.inference.logprobs.count"


def _chat(tokens, key="message"):
    content = [
        {
            "token": '"top_logprobs":',
            "logprob": -0.5,
            "bytes": [1, 2],
            "top_logprobs": [{"token": "a", "logprob": -1.0}],
        }
    ] * tokens
    said = {"role": "assistant", "content": 'a text with "top_logprobs": and "token_logprobs":[1,2]'}
    return {"index": 0, key: said, "logprobs": {"content": content, "refusal": None}, "finish_reason": None}


def _alternative(token):
    return {"token": token, "logprob": -1.0, "bytes": [1]}


#: Tokens of a chat as servers write them: whether there are lists of alternatives, and what is in them.
WITHOUT = {"token": "a", "bytes": [97]}
BARE = {"token": '"top_logprobs":', "logprob": -0.5}
NONE_ASKED = {**WITHOUT, "logprob": -0.5, "top_logprobs": []}
THREE_ASKED = {**WITHOUT, "logprob": -0.5, "top_logprobs": [_alternative(token) for token in ("a]", '"token":', "{")]}


def _text(tokens):
    logprobs = {
        "text_offset": [0] * tokens,
        "token_logprobs": [-0.5] * tokens,
        "tokens": ["a,b]"] * tokens,
        "top_logprobs": [{"a": -0.5, "b": -1.0}] * tokens,
    }
    return {"index": 0, "text": '"token_logprobs":[1,2]', "logprobs": logprobs, "finish_reason": None}


def _sglang(tokens, reason=None, logprobs=None, ids=None):
    count = tokens if logprobs is None else logprobs
    meta = {"id": "x", "completion_tokens": tokens, "finish_reason": reason}
    meta["output_token_logprobs"] = [[-0.5, 1, None]] * count
    return {"text": "hi", "output_ids": [1] * (tokens if ids is None else ids), "meta_info": meta}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"choices": [_chat(3)]}, 3),
        ({"choices": [_chat(3), _chat(4)]}, 7),
        ({"choices": [_text(2), _text(1)]}, 3),
        (_sglang(5, {"type": "stop"}), 5),
        ([_sglang(5, {"type": "stop"}), _sglang(2, {"type": "length"})], 7),
        ({"prompt_ids": [[1]], "completion_ids": [[1, 2], [3]], "logprobs": [[[-0.5], [-0.1]], [[-0.2]]]}, 3),
        ({"choices": [{**_chat(1), "logprobs": None}]}, None),
        ({"choices": [{**_chat(1), "logprobs": {"content": None}}]}, None),
        ({"choices": [{**_chat(1), "logprobs": {"content": "many"}}]}, None),
        ({"choices": [{**_chat(1), "logprobs": [1, 2]}]}, None),
        (_sglang(5, {"type": "stop"}, logprobs=0), None),
    ],
    ids=["chat", "choices", "text", "sglang", "samples", "trl", "none", "no list", "a text", "a list", "not asked for"],
)
def test_a_complete_answer_has_as_many_as_its_tokens(answer, expected):
    found = EngineAnswer(1)
    found.observe(answer)
    assert found.server_attributes().get(NAME) == expected


@pytest.mark.parametrize(("answer", "expected"), [(_sglang(5, {"type": "stop"}), 5), ([_sglang(5), _sglang(2)], 7)])
def test_token_ids_of_sglang_are_counted_too(answer, expected):
    found = EngineAnswer(1)
    found.observe(answer)
    assert found.server_attributes()["rl.inference.token_ids.count"] == expected


@pytest.mark.parametrize("choice", [_chat, _text], ids=["chat", "text"])
def test_chunks_of_the_client_are_added_up(choice):
    answer = Answer()
    for _ in range(10):
        answer.observe_chunk({"id": "c", "choices": [choice(2)]})
    answer.observe_chunk({"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None}]})
    answer.end()
    assert answer.server_attributes()[NAME] == 20


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("choice", [_chat, _text], ids=["chat", "text"])
@pytest.mark.parametrize("number", range(6))
def test_events_are_added_up_whether_they_are_parsed_or_not(choice, number, separators):
    answer = StreamedEngineAnswer(1)
    events = [{"id": "c", "choices": [choice(2)]} for _ in range(number)]
    events.append({"id": "c", "choices": [{**choice(1), "finish_reason": "stop"}]})
    events.append({"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2 * number + 1}})
    for event in events:
        answer.observe_chunk(json.dumps(event, separators=separators).encode())
    answer.observe_chunk(b"[DONE]")
    answer.end()
    assert answer.server_attributes()[NAME] == 2 * number + 1


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    "tokens",
    [[WITHOUT], [BARE], [NONE_ASKED], [THREE_ASKED], [BARE, BARE], [NONE_ASKED, WITHOUT], [THREE_ASKED, WITHOUT, BARE]],
    ids=["without", "bare", "none asked", "three asked", "two bare", "one without", "each kind"],
)
@pytest.mark.parametrize("kind", ["content", "refusal"])
def test_tokens_count_alike_in_answers_streams_and_captured_streams_with_or_without_alternatives(
    tokens, kind, separators
):
    choice = {"index": 0, "delta": {"content": '"token":'}, "logprobs": {kind: tokens}, "finish_reason": None}
    whole, passed_over, captured = EngineAnswer(1), StreamedEngineAnswer(1), StreamedEngineAnswer(1, captures=True)
    whole.observe({"id": "c", "choices": [{"index": 0, "message": {}, "logprobs": {kind: tokens * 10}}]})
    for stream in (passed_over, captured):
        for reason in [None] * 9 + ["stop"]:
            event = {"id": "c", "choices": [{**choice, "finish_reason": reason}]}
            stream.observe_chunk(json.dumps(event, separators=separators).encode())
        stream.end()
    found = [answer.server_attributes()[NAME] for answer in (whole, passed_over, captured)]
    assert found == [10 * len(tokens)] * 3


@pytest.mark.parametrize("length", [9_000_000, 10**12, -5, 2.5, True, "many", {"a": 1}], ids=str)
def test_a_number_of_a_server_is_no_length(length):
    sample = {**_sglang(5, {"type": "stop"}), "output_ids": length}
    sample["meta_info"]["output_token_logprobs"] = length
    trl = {"prompt_ids": length, "completion_ids": [length], "logprobs": [length]}
    for answer in (sample, [sample, sample], trl):
        found = EngineAnswer(1)
        found.observe(answer)
        assert not {NAME, "rl.inference.token_ids.count"} & found.server_attributes().keys()
        assert found.requests in (1, 2)
    stream = StreamedEngineAnswer(1)
    stream.observe_chunk(json.dumps({**sample, "meta_info": {**sample["meta_info"], "completion_tokens": 9}}).encode())
    stream.end()
    assert not {NAME, "rl.inference.token_ids.count"} & stream.server_attributes().keys()


def test_sums_of_large_counts_are_none():
    samples = [_sglang(2**52, {"type": "stop"}, logprobs=0, ids=0) for _ in range(3)]
    for sample in samples:
        sample["meta_info"]["num_retractions"] = 2**52
    answer = EngineAnswer(1)
    answer.observe(samples)
    assert answer.output_tokens is None
    assert answer.preemptions == 0


def test_a_stream_that_is_left_early_has_those_of_the_events_that_came():
    answer = StreamedEngineAnswer(1)
    for _ in range(7):
        answer.observe_chunk(json.dumps({"id": "c", "choices": [_chat(1, "delta")]}).encode())
    answer.end()
    assert answer.server_attributes()[NAME] == 7


def test_a_stream_with_an_event_that_was_too_long_has_none():
    answer = StreamedEngineAnswer(1)
    for _ in range(3):
        answer.observe_chunk(json.dumps({"id": "c", "choices": [_chat(1, "delta")]}).encode())
    answer.observe_chunk(b"")
    answer.observe_chunk(json.dumps({"id": "c", "choices": [_chat(1, "delta")]}).encode())
    answer.end()
    assert NAME not in answer.server_attributes()


def test_a_stream_of_sglang_has_those_of_its_last_event():
    answer = StreamedEngineAnswer(1)
    for tokens in range(1, 5):
        answer.observe_chunk(json.dumps(_sglang(tokens)).encode())
    answer.observe_chunk(json.dumps(_sglang(5, {"type": "stop"})).encode())
    answer.end()
    found = answer.server_attributes()
    assert (found[NAME], found["rl.inference.token_ids.count"]) == (5, 5)


def test_a_stream_of_increments_says_no_number_that_is_none():
    answer = StreamedEngineAnswer(1)
    for tokens in range(1, 5):
        answer.observe_chunk(json.dumps(_sglang(tokens, logprobs=1, ids=1)).encode())
    answer.observe_chunk(json.dumps(_sglang(5, {"type": "stop"}, logprobs=1, ids=1)).encode())
    answer.end()
    found = answer.server_attributes()
    assert NAME not in found
    assert "rl.inference.token_ids.count" not in found
    assert answer.output_tokens == 5


def test_no_log_probability_is_kept():
    answer = EngineAnswer(1)
    given = _sglang(1000, {"type": "stop"})
    answer.observe(given)
    kept = repr({name: value for name, value in vars(answer).items() if name != "_content"})
    assert "-0.5" not in kept
