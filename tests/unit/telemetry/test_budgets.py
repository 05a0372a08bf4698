"""Names that programs and models make up stay within the budget of their metric attribute."""

from __future__ import annotations

import contextlib

import pytest

import otel_rl
from otel_rl.semconv import attributes, metrics
from otel_rl.telemetry import Scope, cardinality_budgets, drops, sampling
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


def test_a_tool_call_asks_the_budget_of_its_name_once(recorded, monkeypatch):
    monkeypatch.setattr(sampling, "_durations", {})
    scope, asked, admit = Scope("test"), [], cardinality_budgets.admit
    with ToolCall(scope, "search"):
        pass
    monkeypatch.setattr(cardinality_budgets, "admit", lambda key, value: asked.append(value) or admit(key, value))
    for _ in range(10):
        with ToolCall(scope, "search"):
            pass
    assert asked == []  # the label itself is looked up among those that are known
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert (point.attributes["gen_ai.tool.name"], point.count) == ("search", 11)


def test_durations_of_tools_beyond_the_budget_are_judged_together(recorded, monkeypatch):
    monkeypatch.setattr(sampling, "_durations", {})
    monkeypatch.setattr(attributes, "CARDINALITY", {attributes.GEN_AI_TOOL_NAME: 2})
    for number in range(20):
        with ToolCall(Scope("test"), f"tool {number}"):
            pass
    assert set(sampling._durations) == {("execute_tool", "tool 0"), ("execute_tool", "_OTHER")}


def test_error_types_that_a_program_makes_up_stay_within_the_budget(recorded):
    before = drops.snapshot().get(("metrics", "cardinality"), 0)
    for number in range(300):
        with ToolCall(Scope("test"), "t") as call:
            call.fail(f"timeout after {number} s")
        with contextlib.suppress(Exception), otel_rl.rollout():
            raise type(f"Error{number}", (Exception,), {})
    points = recorded.metrics()
    budget = attributes.CARDINALITY[attributes.ERROR_TYPE]
    kinds = {
        point.attributes["error.type"]
        for name in ("gen_ai.execute_tool.duration", "rl.rollout.duration")
        for point in points[name]
    }
    assert len(kinds) == budget
    assert cardinality_budgets.OTHER in kinds
    assert drops.snapshot()["metrics", "cardinality"] - before == 600 - (budget - 1)


def test_observed_series_stay_within_the_budget_too(recorded, monkeypatch):
    monkeypatch.setattr(attributes, "CARDINALITY", {attributes.RL_TELEMETRY_SITE: 3})
    values = [(1.0, {attributes.RL_TELEMETRY_SITE: f"site {number}"}) for number in range(9)]
    # A scope of its own: the SDK gives the second one of a name the first one's instrument, without the callback.
    Scope("test_observed_series").observe(metrics.RL_TELEMETRY_ERRORS, lambda: values)
    points = recorded.metrics()["rl.telemetry.errors"]
    assert {point.attributes["rl.telemetry.site"] for point in points} == {"site 0", "site 1", "_OTHER"}
    values.clear()


def test_every_member_of_a_closed_enumeration_keeps_its_name():
    members = {value for name, value in vars(attributes.RlPhaseValues).items() if name.isupper()}
    assert len(members) == attributes.CARDINALITY[attributes.RL_PHASE]
    assert {cardinality_budgets.admit(attributes.RL_PHASE, member) for member in members} == members


def test_an_attribute_that_the_registry_does_not_list_is_an_error_in_our_tests_only(recorded, monkeypatch):
    scope, label = Scope("test"), {attributes.RL_REWARD_NAME: "r"}
    with pytest.raises(ValueError, match=r"rl\.reward\.name"):
        scope.record(metrics.RL_ROLLOUT_DURATION, 1.0, label)
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    before = drops.snapshot().get(("metrics", "unlisted_attribute"), 0)
    scope.record(metrics.RL_ROLLOUT_DURATION, 1.0, label)
    assert recorded.metrics()["rl.rollout.duration"][0].attributes == {}
    assert drops.snapshot()["metrics", "unlisted_attribute"] == before + 1


def test_values_that_are_equal_but_make_series_of_their_own_each_use_the_budget(monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {"key": {1}})
    monkeypatch.setattr(attributes, "CARDINALITY", {"key": 2})
    assert [cardinality_budgets.admit("key", value) for value in (1, True, 1.0)] == [1, True, "_OTHER"]


def test_values_that_are_not_finite_use_the_budget_once():
    assert {cardinality_budgets.admit("key", float("nan")) for _ in range(300)} == {"nan"}
