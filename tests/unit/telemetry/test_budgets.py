"""Names that programs and models make up stay within the budget of their metric attribute."""

from __future__ import annotations

import pytest

from otel_rl.semconv import attributes
from otel_rl.telemetry import Scope, cardinality_budgets
from otel_rl.tools.calls import ToolCall


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})


def test_a_known_value_stays_when_the_budget_is_used_up():
    key = attributes.GEN_AI_TOOL_NAME
    names = [f"tool {number}" for number in range(attributes.CARDINALITY[key] + 5)]
    kept = [cardinality_budgets.within_budget(key, name) for name in names]
    assert len(set(kept)) == attributes.CARDINALITY[key]
    assert kept[-1] == cardinality_budgets.OTHER
    assert cardinality_budgets.within_budget(key, "tool 0") == "tool 0"


def test_a_tool_beyond_the_budget_has_its_name_on_the_span_and_not_on_the_metric(recorded, monkeypatch):
    monkeypatch.setattr(attributes, "CARDINALITY", {attributes.GEN_AI_TOOL_NAME: 2})
    for name in ("first", "second", "third"):
        with ToolCall(Scope("test"), name):
            pass
    assert recorded.span("execute_tool third").attributes["gen_ai.tool.name"] == "third"
    points = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert {point.attributes["gen_ai.tool.name"]: point.count for point in points} == {"first": 1, "_OTHER": 2}
