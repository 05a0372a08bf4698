"""Names of the failures that an answer with a status of 200 reports."""

from __future__ import annotations

import pytest

from otel_rl.inference import failures
from otel_rl.inference.answers import Answer

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
        ({"choices": [{"text": "hi"}], "error": {"code": "warning"}}, None),
        ({"object": "list", "data": []}, None),
    ],
    ids=str,
)
def test_an_answer_without_a_result_fails_with_the_servers_name_for_its_error(body, expected):
    answer = Answer()
    answer.observe(body)
    assert answer.failure == expected


def test_names_of_servers_are_few():
    found = {failures.name_of({"code": f"request_{number}"}) for number in range(1000)}
    assert len(found) == 33
    assert "_OTHER" in found
    assert failures.name_of({"code": "request_0"}) == "request_0"
