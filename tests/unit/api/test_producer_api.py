"""The public producer API, on and off, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.semconv import attributes
from otel_rl.telemetry import cardinality_budgets, drops


def test_a_rollout_is_a_trace_of_its_own_and_its_tool_and_reward_belong_to_it(recorded):
    with trace.get_tracer("outer").start_as_current_span("outer") as outer:
        with otel_rl.rollout("r-1", sample_id=7, group_id=3, policy_version=12, iteration=4, keep=True):
            with otel_rl.tool("search", call_id="c1"):
                pass
            otel_rl.reward("exact_match", 0.5, label="partial")
    rollout, tool = recorded.span("rl.rollout"), recorded.span("execute_tool search")
    assert rollout.parent is None
    assert rollout.context.trace_id != outer.get_span_context().trace_id
    assert tool.parent.span_id == rollout.context.span_id
    assert rollout.attributes["rl.rollout.id"] == "r-1"
    assert rollout.attributes["rl.sample.id"] == "7"
    assert rollout.attributes["rl.loop.iteration"] == 4
    assert rollout.attributes["rl.sampling.priority"] == 1
    assert tool.attributes["rl.rollout.id"] == "r-1"
    (event,) = recorded.events("gen_ai.evaluation.result")
    assert event.trace_id == rollout.context.trace_id
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.5
    assert event.attributes["gen_ai.evaluation.score.label"] == "partial"
    assert event.attributes["rl.sample.id"] == "7"
    points = recorded.metrics()
    assert points["rl.reward.score"][0].attributes == {"rl.reward.name": "exact_match"}
    assert points["rl.rollout.duration"][0].count == 1


def test_no_metric_carries_an_id_of_the_rollout(recorded):
    with otel_rl.rollout("r-2", sample_id=1, group_id=2):
        with otel_rl.tool("t"):
            otel_rl.reward("f", 1.0)
            otel_rl.metric("buffer/size", 3)
    keys = {key for points in recorded.metrics().values() for point in points for key in point.attributes}
    assert {"rl.reward.name", "rl.trainer.metric.key", "gen_ai.tool.name"} <= keys
    assert keys.isdisjoint(attributes.IDENTIFIERS)


def test_an_exception_closes_the_span_as_failed_and_is_the_same_object_outside(recorded):
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught, otel_rl.rollout(), otel_rl.tool("browser"):
        raise error
    assert caught.value is error
    for span in recorded.spans:
        assert span.status.status_code.name == "ERROR"
        assert span.attributes["error.type"] == "KeyboardInterrupt"


def test_a_failure_without_an_exception_is_marked(recorded):
    with otel_rl.tool("browser") as call:
        call.fail("timeout")
    assert recorded.span("execute_tool browser").attributes["error.type"] == "timeout"


def test_steps_of_a_loop_of_ones_own_hold_their_phases(recorded):
    for iteration in (1, 2):
        with otel_rl.step(iteration), otel_rl.phase("train"), otel_rl.phase("backward"):
            pass
    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert [span.attributes["rl.loop.iteration"] for span in roots] == [1, 2]
    backward = [span for span in recorded.spans if span.name == "rl.backward"]
    assert [span.context.trace_id for span in backward] == [span.context.trace_id for span in roots]
    points = recorded.metrics()
    assert points["rl.phase.duration"][0].attributes == {"rl.phase": "backward"}
    assert points["rl.train.duration"][0].count == 2


def test_a_misspelt_phase_is_refused_with_the_accepted_names():
    with pytest.raises(ValueError, match="backward"):
        otel_rl.phase("bakward")


@pytest.mark.parametrize("decorator", [otel_rl.rollout, otel_rl.tool, otel_rl.llm, otel_rl.span])
def test_a_decorator_without_parentheses_is_refused_at_once(decorator):
    with pytest.raises(TypeError, match="with parentheses"):

        @decorator
        def function():
            return 1


def test_decorated_functions_keep_their_nature_name_and_signature(recorded):
    @otel_rl.tool("a")
    def plain(x: int) -> int:
        return x

    @otel_rl.tool("b")
    async def coroutine(x: int) -> int:
        return x

    @otel_rl.phase("sample")
    def generator(x: int):
        yield x

    @otel_rl.rollout()
    async def stream(x: int):
        yield x

    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(stream)
    for function, name in ((plain, "plain"), (coroutine, "coroutine"), (generator, "generator"), (stream, "stream")):
        assert function.__name__ == name
        assert list(inspect.signature(function).parameters) == ["x"]


async def test_a_coroutine_is_recorded_while_it_runs(recorded):
    @otel_rl.tool("fetch")
    async def fetch():
        return trace.get_current_span().get_span_context().span_id

    inside = await fetch()
    assert inside == recorded.span("execute_tool fetch").context.span_id


def test_a_generator_is_current_only_while_it_runs(recorded):
    seen = []

    @otel_rl.rollout()
    def turns():
        for turn in range(2):
            seen.append(trace.get_current_span().get_span_context().span_id)
            received = yield turn
            seen.append(received)
        return "done"

    generator = turns()
    assert next(generator) == 0
    assert not trace.get_current_span().get_span_context().is_valid
    assert generator.send("hello") == 1
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"
    rollout = recorded.span("rl.rollout")
    assert seen == [rollout.context.span_id, "hello", rollout.context.span_id, None]


def test_a_generator_given_up_early_is_closed_without_an_error(recorded):
    closed = []

    @otel_rl.rollout()
    def turns():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    generator = turns()
    next(generator)
    generator.close()
    assert closed == [True]
    assert "error.type" not in recorded.span("rl.rollout").attributes


def test_a_generator_that_goes_on_when_it_is_closed_is_recorded_and_fails_as_without_us(recorded):
    @otel_rl.rollout()
    def turns():
        try:
            yield 1
        finally:
            yield 2

    @otel_rl.rollout()
    async def turns_async():
        try:
            yield 1
        finally:
            yield 2

    async def take_first(generator):
        await anext(generator)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            await generator.aclose()
        assert len(recorded.spans) == 2

    generator, generator_async = turns(), turns_async()
    next(generator)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        generator.close()
    assert recorded.span("rl.rollout").attributes["rl.rollout.status"] == "finished"
    assert not trace.get_current_span().get_span_context().is_valid
    asyncio.run(take_first(generator_async))


def test_what_the_consumer_throws_reaches_the_generator(recorded):
    @otel_rl.phase("sample")
    def robust():
        try:
            yield 1
        except KeyError:
            yield "handled"

    generator = robust()
    next(generator)
    assert generator.throw(KeyError("x")) == "handled"
    generator.close()


async def test_an_async_generator_is_current_only_while_it_runs(recorded):
    @otel_rl.rollout()
    async def turns():
        yield trace.get_current_span().get_span_context().span_id

    found = [item async for item in turns()]
    assert not trace.get_current_span().get_span_context().is_valid
    assert found == [recorded.span("rl.rollout").context.span_id]


def test_content_is_recorded_only_when_asked_for(recorded, monkeypatch):
    with otel_rl.tool("calculator", arguments={"a": 1}):
        pass
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    with otel_rl.tool("calculator", arguments={"a": 1}):
        pass
    without, with_content = (span.attributes for span in recorded.spans)
    assert "gen_ai.tool.call.arguments" not in without
    assert with_content["gen_ai.tool.call.arguments"] == '{"a": 1}'


def test_unusable_values_never_raise(recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    otel_rl.reward("f", "not a number")  # type: ignore[arg-type]
    otel_rl.metric("k", float("nan"))
    otel_rl.event("my.event", body=object(), attributes={"x": object()})


def test_without_telemetry_everything_works_and_nothing_is_imported():
    program = """
import sys, otel_rl
@otel_rl.tool("t")
def f(x): return x + 1
with otel_rl.rollout() as r, otel_rl.step(1), otel_rl.phase("train"):
    assert f(1) == 2
    r.fail("x")
@otel_rl.llm("m")
def ask(x): return x
with otel_rl.llm("m", temperature=1) as call, otel_rl.span("s", a=1) as work:
    call.usage(input_tokens=1, output_tokens=2); call.finish("stop"); call.answer(ask({})); call.first_token()
    work.set(b=2)
assert otel_rl.trace_id() is None
otel_rl.count("c", hit=True); otel_rl.observe("h", 1.0, unit="s"); otel_rl.rollout_metric("m", 1)
otel_rl.reward("a", 1.0); otel_rl.metric("b", 2.0); otel_rl.event("c")
print(sorted(m for m in sys.modules if m.startswith(("opentelemetry", "otel_rl.telemetry"))))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


def test_the_accepted_phases_are_those_of_the_registry():
    from otel_rl.semconv.attributes import RlPhaseValues

    assert set(otel_rl._PHASES) == {value for name, value in vars(RlPhaseValues).items() if name.isupper()}


def test_an_object_may_be_entered_again_inside_itself(recorded):
    turn = otel_rl.rollout()
    with turn, turn:
        pass
    with turn:
        pass
    assert [span.name for span in recorded.spans] == ["rl.rollout"] * 3
    assert not trace.get_current_span().get_span_context().is_valid


def test_names_beyond_their_budget_make_no_further_series(recorded, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    dropped = drops.snapshot().get(("metrics", "cardinality"), 0)
    for number in range(400):
        otel_rl.metric(f"key/{number}", 1.0)
        otel_rl.reward(f"reward-{number}", 1.0)
        with otel_rl.tool(f"tool-{number}"):
            pass
    points = recorded.metrics()
    keys = {point.attributes["rl.trainer.metric.key"] for point in points["rl.trainer.metric"]}
    assert len([key for key in keys if key.startswith("key/")]) == 299
    beyond = {"keys": 101, "rewards": 351, "tools": 201}
    assert drops.snapshot()["metrics", "cardinality"] - dropped == sum(beyond.values())
    assert len(points["rl.reward.score"]) == 50
    assert len(points["gen_ai.execute_tool.duration"]) == 200
    assert "tool-399" in {span.attributes["gen_ai.tool.name"] for span in recorded.spans}


def test_without_telemetry_a_call_costs_no_more_than_a_few_of_an_empty_context_manager():
    program = """
import contextlib, timeit, otel_rl
@contextlib.contextmanager
def empty(): yield
def plain():
    with empty(): pass
def span():
    with otel_rl.tool("search"): pass
def call():
    with otel_rl.llm("model"): pass
def work():
    with otel_rl.span("work", size=1): pass
calls = (span, call, work, otel_rl.trace_id)
calls += (lambda: otel_rl.count("c", hit=True), lambda: otel_rl.observe("h", 1.0))
calls += (lambda: otel_rl.rollout_metric("m", 1),)
calls += (lambda: otel_rl.reward("f", 1.0), lambda: otel_rl.metric("k", 1.0), lambda: otel_rl.event("e"))
best = lambda call: min(timeit.repeat(call, number=2000, repeat=50))
print(max(map(best, calls)) / best(plain))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < 4
