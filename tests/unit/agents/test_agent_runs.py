"""Runs of agents: one span, one duration, and a row where nothing else called them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.instrumentors.followed_calls import follow
from otel_rl.instrumentors.patching import Patches
from otel_rl.telemetry import Scope, deferral
from otel_rl.training import trajectories

SCOPE = Scope("agents_of_tests")


def rows(recorded):
    trajectories.record()
    deferral.drain_all()
    return [record.body for record in recorded.events("rl.trajectories")]


@pytest.fixture
def library():
    """Functions of every kind, each of which asks an agent inside of itself for its span."""

    def plain(self, question):
        return trace.get_current_span()

    async def coroutine(self, question):
        await asyncio.sleep(0)
        return trace.get_current_span()

    def generator(self, question):
        yield trace.get_current_span()
        yield trace.get_current_span()

    async def async_generator(self, question):
        yield trace.get_current_span()
        yield trace.get_current_span()

    library = SimpleNamespace(__name__="library")
    kind = type("Agent", (), {f.__name__: f for f in (plain, coroutine, generator, async_generator)})
    library.Agent = kind
    patches = Patches()
    for name in ("plain", "coroutine", "generator", "async_generator"):
        follow(patches, kind, name, lambda given: AgentRun(SCOPE, runs.agent(f"for {given['question']}")))
    yield kind()
    patches.restore()


async def items(agenerator):
    return [(item, trace.get_current_span()) async for item in agenerator]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "generator", "async_generator"])
def test_a_run_of_any_kind_of_function_is_current_inside_and_nowhere_else(recorded, library, kind):
    answer = getattr(library, kind)("x")
    if kind == "coroutine":
        seen = [asyncio.run(answer)]
    elif kind == "generator":
        seen = []
        for item in answer:
            seen.append(item)
            assert trace.get_current_span() is trace.INVALID_SPAN
    elif kind == "async_generator":
        pairs = asyncio.run(items(answer))
        seen = [item for item, _ in pairs]
        assert {outside for _, outside in pairs} == {trace.INVALID_SPAN}
    else:
        seen = [answer]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert {span.name for span in seen} == {"invoke_agent for x"}
    (span,) = recorded.spans
    assert span.attributes["gen_ai.agent.name"] == "for x"
    (row,) = rows(recorded)
    assert row["rl.rollout.trace_id"] == [f"{span.context.trace_id:032x}"]
    assert row["rl.rollout.status"] == ["finished"]
    assert row["gen_ai.agent.name"] == ["for x"]


def test_an_agent_inside_of_another_or_of_a_rollout_has_no_row_of_its_own(recorded):
    with otel_rl.rollout("r"):
        outer = AgentRun(SCOPE, runs.workflow("outer"))
        inner = AgentRun(SCOPE, runs.agent("inner"))
        assert outer.trajectory is inner.trajectory is None
        inner.end(ValueError("no"))
        outer.end()
    assert [row["rl.rollout.id"] for row in rows(recorded)] == [["r"]]
    spans = {span.name: span for span in recorded.spans}
    assert spans["invoke_agent inner"].parent.span_id == spans["invoke_workflow outer"].context.span_id
    assert spans["invoke_agent inner"].attributes["error.type"] == "ValueError"


@pytest.mark.parametrize("has_span", [True, False])
def test_a_run_inside_of_a_step_has_a_trace_of_its_own_that_is_linked_to_the_step(recorded, has_span):
    with otel_rl.step(3), otel_rl.phase("sample"):
        run = AgentRun(SCOPE, runs.agent("a"), has_span=has_span)
        with trace.get_tracer("native").start_as_current_span("inside") as inside:
            pass
        run.end()
        assert trace.get_current_span() is not trace.INVALID_SPAN
    step = recorded.span("rl.loop")
    top = recorded.span("invoke_agent a" if has_span else "inside")
    assert top.parent is None
    assert top.context.trace_id == inside.get_span_context().trace_id != step.context.trace_id
    assert [link.context.trace_id for link in top.links] == [step.context.trace_id]
    (row,) = rows(recorded)
    assert row["rl.rollout.trace_id"] == [f"{top.context.trace_id:032x}"]


def test_a_failure_that_is_not_raised_is_one_of_the_run(recorded):
    run = AgentRun(SCOPE, runs.agent("a", "conversation 1"))
    run.fail("max_turns")
    run.end()
    (row,) = rows(recorded)
    assert row["rl.rollout.status"] == ["failed"]
    assert row["gen_ai.conversation.id"] == ["conversation 1"]
    (span,) = recorded.spans
    assert span.attributes["error.type"] == "max_turns"


def test_the_first_span_of_a_library_with_own_spans_stands_for_the_trajectory(recorded):
    native = trace.get_tracer("native")
    run = AgentRun(SCOPE, runs.agent("a"), has_span=False)
    with native.start_as_current_span("native root") as root, native.start_as_current_span("native child"):
        pass
    run.end()
    later = AgentRun(SCOPE, runs.agent("b"), has_span=False)
    later.end()
    (record,) = rows(recorded)
    assert record["rl.rollout.trace_id"] == [f"{root.get_span_context().trace_id:032x}", None]
    names = {span.name: span for span in recorded.spans}
    assert set(names) == {"native root", "native child"}
    assert "rl.rollout.id" in names["native root"].attributes
    assert "rl.rollout.id" not in names["native child"].attributes
