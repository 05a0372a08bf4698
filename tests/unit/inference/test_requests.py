"""What requests to one server have in common is kept, and nothing else of them is."""

from __future__ import annotations

import pytest

from otel_rl.inference.requests import CHAT, ModelRequest
from otel_rl.inference.servers import Server
from otel_rl.semconv import attributes
from otel_rl.telemetry import cardinality_budgets


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})


def _server(*, within_budget: bool = True) -> Server:
    return Server("10.0.0.1", 8000, "openai", within_budget=within_budget)


@pytest.mark.parametrize("within_budget", [True, False])
def test_a_request_has_no_parameter_of_the_one_before(within_budget):
    server = _server(within_budget=within_budget)
    first = ModelRequest(CHAT, server, {"model": "tiny", "temperature": 0.5, "seed": 7})
    second = ModelRequest(CHAT, server, {"model": "tiny", "seed": 8})
    assert first.values == {**server.values, "gen_ai.request.temperature": 0.5, "gen_ai.request.seed": 7}
    assert second.values == {**server.values, "gen_ai.request.seed": 8}
    assert first.labels == second.labels == {**_server(within_budget=within_budget).labels, **_labels("tiny")}


def _labels(model: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}


def test_requests_without_a_model_and_with_several_have_labels_of_their_own():
    server = _server()
    bodies = [{"model": "a"}, {}, {"model": "b"}, {"model": ["a"]}, {"model": ""}, {"model": "a"}]
    found = [ModelRequest(CHAT, server, body).labels.get("gen_ai.request.model") for body in bodies]
    assert found == ["a", None, "b", None, None, "a"]


def test_names_of_models_beyond_the_budget_are_not_kept():
    server, budget = _server(), attributes.CARDINALITY[attributes.GEN_AI_REQUEST_MODEL]
    for number in range(3 * budget):
        ModelRequest(CHAT, server, {"model": f"step-{number}"})
        ModelRequest(CHAT, server, {"model": f"/checkpoints/{number}/policy"})
    # And one for requests without a model.
    assert len(server.series) <= budget + 1
    late = ModelRequest(CHAT, server, {"model": "late"})
    assert late.labels["gen_ai.request.model"] == cardinality_budgets.OTHER
    assert late.values == {"gen_ai.request.model": "late"}
    assert late.name == "chat late"
