"""``otel_rl.span`` and ``otel_rl.trace_id``: work that only the program has a name for."""

from __future__ import annotations

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.telemetry import cardinality_budgets


def test_a_span_is_part_of_what_is_around_it_and_current_inside(recorded):
    with otel_rl.rollout("r"), otel_rl.span("verify", tests=3, strict=True) as work:
        inside = trace.get_current_span().get_span_context().span_id
        work.set(passed=2, names=["a", "b"], of={"nested": 1})
        with otel_rl.tool("run"):
            pass
        otel_rl.reward("passed", 0.5)
    span, rollout = recorded.span("verify"), recorded.span("rl.rollout")
    assert span.parent.span_id == rollout.context.span_id
    assert span.context.span_id == inside == recorded.span("execute_tool run").parent.span_id
    assert {"tests": 3, "strict": True, "passed": 2, "names": ("a", "b")}.items() <= span.attributes.items()
    assert span.attributes["rl.rollout.id"] == "r"
    assert "rl.span.name" not in span.attributes
    (event,) = recorded.events("gen_ai.evaluation.result")
    assert event.span_id == span.context.span_id
    assert not trace.get_current_span().get_span_context().is_valid


def test_an_exception_and_a_failure_mark_the_span(recorded):
    error = KeyError("x")
    with pytest.raises(KeyError) as caught, otel_rl.span("raises"):
        raise error
    with otel_rl.span("fails") as work:
        work.fail("no_budget")
    assert caught.value is error
    assert recorded.span("raises").attributes["error.type"] == "KeyError"
    assert recorded.span("fails").attributes["error.type"] == "no_budget"


def test_names_beyond_their_budget_stay_in_an_attribute(recorded, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    for number in range(250):
        with otel_rl.span(f"task-{number}"):
            pass
    shown = [span.name for span in recorded.spans]
    assert len(set(shown)) == 200
    assert shown[199:] == ["_OTHER"] * 51
    assert recorded.spans[-1].attributes["rl.span.name"] == "task-249"


def test_a_name_of_ours_is_not_taken_for_one_of_ours(recorded):
    with otel_rl.step(1), otel_rl.span("rl.loop"):
        pass
    assert recorded.span("_OTHER").attributes["rl.span.name"] == "rl.loop"
    assert recorded.span("rl.loop").parent is None


def test_an_attribute_may_have_any_name_and_any_value(recorded):
    class Odd:
        def __str__(self):
            raise ValueError

    with otel_rl.span("work", name="n", self=1, kind=2, value=Odd()) as work:
        work.set(values=Odd(), what=3)
    found = recorded.span("work").attributes
    assert (found["name"], found["self"], found["kind"], found["what"]) == ("n", 1, 2, 3)


def test_a_decorated_coroutine_is_a_span_per_call(recorded):
    @otel_rl.span("verify", tests=3)
    async def verify(value):
        return value

    import asyncio

    assert asyncio.run(verify(7)) == 7
    assert recorded.span("verify").attributes["tests"] == 3


def test_the_trace_id_is_that_of_the_rollout_or_else_of_the_step(recorded):
    assert otel_rl.trace_id() is None
    with otel_rl.step(1):
        of_step = otel_rl.trace_id()
        with otel_rl.rollout():
            of_rollout = otel_rl.trace_id()
    assert of_step == f"{recorded.span('rl.loop').context.trace_id:032x}"
    assert of_rollout == f"{recorded.span('rl.rollout').context.trace_id:032x}"
    assert otel_rl.trace_id() is None
