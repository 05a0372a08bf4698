"""Failures that an answer with a status of 200 reports, and their names."""

from __future__ import annotations

import json

import pytest

from otel_rl.inference import failures
from otel_rl.inference.answers import Answer
from otel_rl.inference.http.protocols import EngineAnswer
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer

OPENAI = {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": "model_not_found"}}
#: vLLM 0.32, ``ErrorResponse``.
VLLM = {"error": {"message": "m", "type": "BadRequestError", "param": None, "code": 400}}
#: SGLang 0.5.23, and vLLM before 0.10.
OBJECT = {"object": "error", "message": "m", "type": "InternalServerError", "param": None, "code": 500}


@pytest.fixture(autouse=True)
def _names(monkeypatch):
    monkeypatch.setattr(failures, "_names", set())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (OPENAI, "model_not_found"),
        (VLLM, "BadRequestError"),
        (OBJECT, "InternalServerError"),
        ({"object": "error", "message": "m", "code": 503}, "503"),
        ({"error": {"message": "m", "code": 429}}, "429"),
        ({"error": {"message": "m"}}, "answer_error"),
        ({"error": "the engine is gone"}, "answer_error"),
        ({"error": {"code": "prompt 'hi' is too long", "type": 7}}, "answer_error"),
        ({"error": {"code": 7}}, "answer_error"),
        ({"choices": [], "error": {"code": "engine_dead"}}, "engine_dead"),
        ({"choices": None, "error": {"code": "engine_dead"}}, "engine_dead"),
        ({"error": None}, None),
        ({"error": {}}, None),
        ({"error": ""}, None),
        ({"error": 0}, None),
        ({"error": [1]}, None),
        ({"choices": [{"text": "hi"}], "error": {"code": "overloaded"}}, "overloaded"),
        ({"choices": [{"text": "hi"}], "error": "the provider broke off"}, "answer_error"),
        ({"choices": [{"text": "hi"}], "error": None}, None),
        ({"choices": [{"text": "hi"}], "error": {}}, None),
        ({"choices": [{"text": "hi"}], "error": {"code": 0, "message": ""}}, None),
        ({"choices": [{"text": "hi"}], "error": {"code": None, "message": None, "type": None}}, None),
        ({"choices": [{"text": "hi", "error": {"code": 0, "message": ""}}]}, None),
        ({"choices": [{"text": "hi"}], "error": {"code": 0, "message": "broke off"}}, "answer_error"),
        ({"choices": [{"text": "hi"}], "status": "error"}, "answer_error"),
        ({"choices": [{"text": "hi"}], "status": "failed", "code": "overloaded"}, "overloaded"),
        ({"choices": [{"text": "hi"}], "status": "failed", "type": "completion"}, "answer_error"),
        ({"choices": [{"text": "hi"}], "status": "success"}, None),
        ({"choices": [{"text": "", "finish_reason": "error", "error": {"code": 502}}]}, "502"),
        ({"choices": [{"text": "", "error": {"code": 502}}], "error": {"code": "overloaded"}}, "overloaded"),
        ({"choices": [{"text": "hi", "error": None}]}, None),
        ({"error": {"code": "429", "message": "m"}}, "429"),
        ({"error": {"code": "200", "message": "m"}}, "answer_error"),
        ({"status": "error", "error": {"code": "overloaded"}}, "overloaded"),
        ({"status": "error", "message": "m"}, "answer_error"),
        ({"status": "500", "error": "boom"}, "answer_error"),
        ({"status": "completed", "error": {"code": "overloaded"}}, "overloaded"),
        ({"status": "failed", "error": {"message": "m"}}, "response_failed"),
        ({"status": "failed", "error": {"code": "server_error"}}, "server_error"),
        ({"status": "completed", "error": None, "output": []}, None),
        ({"object": "list", "data": []}, None),
    ],
    ids=str,
)
def test_an_answer_that_says_an_error_fails_with_the_servers_name_for_it(body, expected):
    answer = Answer()
    answer.observe(body)
    assert answer.failure == expected


@pytest.mark.parametrize("body", [OPENAI, {**OPENAI, "choices": [{"index": 0, "finish_reason": "error"}]}], ids=str)
def test_a_complete_answer_and_a_streamed_one_fail_alike(body):
    complete, streamed = EngineAnswer(1), StreamedEngineAnswer(1)
    complete.observe(body)
    streamed.observe_chunk(json.dumps(body).encode())
    streamed.end()
    assert complete.failure == streamed.failure == "model_not_found"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [({"error": {"code": 0, "message": ""}}, None), ({"status": "error"}, "stream_error")],
    ids=str,
)
def test_an_event_of_a_stream_fails_where_it_says_something_of_an_error(facts, expected):
    streamed = StreamedEngineAnswer(1)
    streamed.observe_chunk(json.dumps({"choices": [{"index": 0, "finish_reason": "stop"}], **facts}).encode())
    streamed.end()
    assert streamed.failure == expected


def test_names_of_servers_are_few():
    found = {failures.name_of({"code": f"request_{number}"}) for number in range(1000)}
    assert len(found) == 33
    assert "_OTHER" in found
    assert failures.name_of({"code": "request_0"}) == "request_0"
