"""What a request asks for is on the span, and is sent as the program wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from otel_rl.semconv import attributes
from otel_rl.telemetry import cardinality_budgets

MESSAGES: Any = [{"role": "user", "content": "hi"}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES}


def test_parameters_of_the_request_are_on_the_span(recorded, client):
    client.chat.completions.create(
        **CHAT, max_tokens=8, temperature=0.5, top_p=0.9, seed=3, n=2, response_format={"type": "json_object"}
    )
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.request.max_tokens"] == 8
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.top_p"] == 0.9
    assert found["gen_ai.request.seed"] == 3
    assert found["gen_ai.request.choice.count"] == 2
    assert found["gen_ai.output.type"] == "json"


def test_an_embedding_says_the_dimensions_and_the_form_that_were_asked_for(recorded, client):
    client.embeddings.create(model="tiny", input="x", dimensions=8, encoding_format="float")
    found = recorded.span("embeddings tiny").attributes
    assert found["gen_ai.embeddings.dimension.count"] == 8
    assert found["gen_ai.request.encoding_formats"] == ("float",)


@pytest.mark.parametrize("body", [{"dimensions": "many", "encoding_format": 7}, {}], ids=str)
def test_parameters_of_an_embedding_of_another_type_are_not_recorded(body, recorded, client):
    client.post("/embeddings", body={"model": "tiny", "input": "x", **body}, cast_to=object)
    found = recorded.span("embeddings tiny").attributes
    assert not {"gen_ai.embeddings.dimension.count", "gen_ai.request.encoding_formats"} & found.keys()


def test_a_call_of_responses_says_so_and_one_of_chat_does_not(recorded, client):
    if not hasattr(client, "responses"):
        pytest.skip("this version of openai has no responses")
    client.responses.create(model="tiny", input="x")
    assert recorded.span("chat tiny").attributes["openai.api.type"] == "responses"
    recorded.clear()
    client.chat.completions.create(**CHAT)
    assert "openai.api.type" not in recorded.span("chat tiny").attributes


def test_stop_sequences_penalties_and_what_extra_body_adds_are_on_the_span(recorded, server, client):
    client.chat.completions.create(
        **CHAT,
        stop="</answer>",
        presence_penalty=0.25,
        frequency_penalty=0.5,
        extra_body={"top_k": 5, "max_tokens": 7, "n": 4, "stream": False},
    )
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.request.stop_sequences"] == ("</answer>",)
    assert found["gen_ai.request.presence_penalty"] == 0.25
    assert found["gen_ai.request.frequency_penalty"] == 0.5
    assert found["gen_ai.request.top_k"] == 5
    assert found["gen_ai.request.max_tokens"] == 7
    assert found["gen_ai.request.choice.count"] == 4
    assert server.requests[0][2]["top_k"] == 5


@pytest.mark.parametrize(
    "body",
    [
        {"stop": {"a": 1}},
        {"stop": [1, 2]},
        {"stop": 7},
        {"temperature": "hot", "n": "two", "max_tokens": None},
        {"response_format": "json", "model": 7},
        {"text": "x"},
    ],
    ids=str,
)
def test_parameters_of_another_type_are_sent_and_not_recorded(body, recorded, server, client):
    client.post("/completions", body={"prompt": "x", **body}, cast_to=object)
    assert server.requests[0][2] == {"prompt": "x", **body}
    (span,) = recorded.spans
    assert {key for key in span.attributes if key.startswith("gen_ai.request.")} == set()


@pytest.mark.parametrize("value", [0, 1, 0.5])
def test_a_temperature_is_a_double_also_where_the_program_writes_an_integer(value, recorded, client):
    client.post("/completions", body={"prompt": "x", "temperature": value}, cast_to=object)
    (span,) = recorded.spans
    found = span.attributes["gen_ai.request.temperature"]
    assert (type(found), found) == (float, value)


def test_the_request_body_is_sent_as_the_program_wrote_it(server, client):
    list(client.chat.completions.create(**CHAT, stream=True, extra_body={"return_token_ids": True}))
    _, _, body = server.requests[0]
    assert body == {**CHAT, "stream": True, "return_token_ids": True}


@pytest.mark.parametrize(
    ("model", "expected"),
    [("/mnt/checkpoints/step-100", "step-100"), ("./out/", "out"), ("org/name", "org/name"), ("tiny", "tiny")],
)
def test_a_local_path_does_not_become_a_model_name(model, expected, recorded, client):
    client.chat.completions.create(model=model, messages=MESSAGES)
    assert recorded.span(f"chat {expected}").attributes["gen_ai.request.model"] == expected


def test_a_model_beyond_the_budget_has_its_name_on_the_span_and_not_on_the_metrics(recorded, client, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    monkeypatch.setattr(attributes, "CARDINALITY", {attributes.GEN_AI_REQUEST_MODEL: 2})
    for model in ("step-1", "step-2"):
        client.chat.completions.create(model=model, messages=MESSAGES)
    assert recorded.span("chat step-2").attributes["gen_ai.request.model"] == "step-2"
    points = recorded.metrics()["gen_ai.client.operation.duration"]
    assert {point.attributes["gen_ai.request.model"] for point in points} == {"step-1", "_OTHER"}
