"""Runs of smolagents, on the library itself, with a model that follows a script."""

from __future__ import annotations

import gc
import inspect
from contextlib import suppress
from weakref import WeakSet

import pytest
from opentelemetry import trace
from smolagents import (
    ActionStep,
    AgentError,
    AgentLogger,
    CodeAgent,
    LogLevel,
    Model,
    OpenAIServerModel,
    ToolCallingAgent,
    tool,
)
from smolagents.local_python_executor import LocalPythonExecutor
from smolagents.models import ChatMessage, ChatMessageStreamDelta, TokenUsage
from smolagents.remote_executors import RemotePythonExecutor
from support.agent_truth import Count, compare
from support.scripted_model import GIVEN, MADE, ScriptedModel, rows, tree

from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.smolagents import SmolagentsInstrumentor, models

ADD, BAD, ANSWER = ("add", {"a": 1, "b": 2}), ("bad", {}), ("final_answer", {"answer": "done"})
SCRIPTS = {
    "plain": [[ANSWER]],
    "tools": [[ADD], [ADD, BAD], [ANSWER]],
    "refused": [[("made_up", {})], [("add", {"a": "x", "b": 2})], [ANSWER]],
    "endless": [[ADD]],
    "twin": [[("twin", {})], [ANSWER]],
    "parent": [[("helper", {"task": "?"})], [ANSWER]],
    "helper": [[ADD], [ANSWER]],
    "code": ["<code>\nprint(add(1, 2))\n</code>", "<code>\nbad()\n</code>", "<code>\nfinal_answer('x')\n</code>"],
    "coding parent": ["<code>\nprint(helper('?'))\n</code>", "<code>\nfinal_answer('x')\n</code>"],
}


count = Count()


@pytest.fixture(scope="module")
def model():
    with ScriptedModel(SCRIPTS) as server:
        server.counts_requests = True
        yield server


@pytest.fixture
def server(model):
    model.requests.clear()
    count.clear()
    return model


@pytest.fixture(params=["ours", "official"])
def library(request, pipeline, recorded):
    """The library alone, and beside the official instrumentor."""
    official = None
    if request.param == "official":
        module = pytest.importorskip("opentelemetry.instrumentation.genai.smolagents")
        official = module.SmolagentsInstrumentor()
        official.instrument(skip_dep_check=True)
    instrumentors = OpenAIInstrumentor(), SmolagentsInstrumentor()
    for one in instrumentors:
        one.instrument(skip_dep_check=True)
    yield request.param
    for one in (*instrumentors, *([official] if official else [])):
        one.uninstrument()


@tool
@count.tool
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: one
        b: another
    """
    return a + b


@tool
@count.tool
def bad() -> str:
    """Fail."""
    raise TimeoutError("late")


@tool
@count.tool
def twin() -> str:
    """Return a text."""
    return "x"


@pytest.fixture
def make(server, library):
    def agent(name, kind=ToolCallingAgent, **values):
        model = values.pop("model", None) or OpenAIServerModel(model_id=name, api_base=server.base_url, api_key="x")
        name = values.pop("own_name", name).replace(" ", "_")
        return kind(**{"tools": [add, bad], "model": model, "name": name, "verbosity_level": 0, **values})

    return agent


def plain(make):
    make("plain").run("go")


def in_turns(make):
    make("tools").run("go")


def streamed(make):
    for _ in make("tools", stream_outputs=True).run("go", stream=True):
        pass


def left_early(make):
    steps = make("tools").run("go", stream=True)
    for step in steps:
        if type(step).__name__ == "ActionStep":
            break
    with suppress(RuntimeError):  # its clean-up makes a step, too
        steps.close()


def left_at_once(make):
    steps = make("tools").run("go", stream=True)
    next(steps)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        steps.close()


def refused(make):
    make("refused").run("go")


def limited(make):
    make("endless", max_steps=2).run("go")


def missing(make):
    with pytest.raises(Exception, match="no such model"):
        make("nobody").run("go")


def interrupted(make):
    agent = make("endless")
    agent.step_callbacks.register(ActionStep, lambda _, agent: agent.interrupt())
    with pytest.raises(Exception, match="interrupted"):
        agent.run("go")


def managed(make):
    make("parent", managed_agents=[make("helper", description="helps")]).run("go")


def named_alike(make):
    make("twin", own_name="agent", tools=[twin]).run("go")


def code(make):
    make("code", CodeAgent).run("go")


def managed_by_code(make):
    make("coding parent", CodeAgent, managed_agents=[make("helper", description="helps")]).run("go")


TOOLS = """
invoke_agent tools
. chat tools
. execute_tool add
. chat tools
. execute_tool add
. execute_tool bad (TimeoutError)
. chat tools
. execute_tool final_answer
"""
LEFT = """
invoke_agent tools
. chat tools
. execute_tool add
"""
REFUSED = """
invoke_agent refused
. chat refused
. execute_tool made_up (unknown_tool)
. chat refused
. execute_tool add (AgentToolCallError)
. chat refused
. execute_tool final_answer
"""
LIMITED = """
invoke_agent endless (smolagents.utils.AgentMaxStepsError)
. chat endless
. execute_tool add
. chat endless
. execute_tool add
. chat endless
"""
MISSING = """
invoke_agent nobody (smolagents.utils.AgentGenerationError)
. chat nobody (openai.NotFoundError)
"""
INTERRUPTED = """
invoke_agent endless (cancelled)
. chat endless
. execute_tool add
"""
MANAGED_BY_CODE = """
invoke_agent coding_parent
. chat coding parent
. execute_tool python_interpreter
. . execute_tool helper
. . . invoke_agent helper
. . . . chat helper
. . . . execute_tool add
. . . . chat helper
. . . . execute_tool final_answer
. chat coding parent
. execute_tool python_interpreter
. . execute_tool final_answer
"""
MANAGED = """
invoke_agent parent
. chat parent
. execute_tool helper
. . invoke_agent helper
. . . chat helper
. . . execute_tool add
. . . chat helper
. . . execute_tool final_answer
. chat parent
. execute_tool final_answer
"""
CODE = """
invoke_agent code
. chat code
. execute_tool python_interpreter
. . execute_tool add
. chat code
. execute_tool python_interpreter (smolagents.local_python_executor.InterpreterError)
. . execute_tool bad (TimeoutError)
. chat code
. execute_tool python_interpreter
. . execute_tool final_answer
"""
#: Shape -> its row (see `rows`), and its tree. The answer is a tool, too.
SHAPES = {
    plain: ((1, 1, 0, 1, 0, "finished"), "invoke_agent plain\n. chat plain\n. execute_tool final_answer"),
    in_turns: ((3, 3, 0, 4, 1, "finished"), TOOLS),
    streamed: ((3, 3, 0, 4, 1, "finished"), TOOLS),
    left_at_once: ((1, 1, 0, 0, 0, "finished"), "invoke_agent tools\n. chat tools"),
    left_early: ((1, 1, 0, 1, 0, "finished"), LEFT),
    refused: ((3, 3, 0, 3, 2, "finished"), REFUSED),
    limited: ((3, 3, 0, 2, 0, "failed"), LIMITED),
    missing: ((0, 1, 0, 0, 0, "failed"), MISSING),
    interrupted: ((1, 1, 0, 1, 0, "cancelled"), INTERRUPTED),
    managed: ((2, 2, 2, 4, 0, "finished"), MANAGED),
    code: ((3, 3, 0, 6, 2, "finished"), CODE),
    managed_by_code: ((2, 2, 2, 6, 0, "finished"), MANAGED_BY_CODE),
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_shape_of_a_run_is_one_trajectory_with_one_tree(library, recorded, make, shape):
    shape(make)
    row, lines = SHAPES[shape]
    assert rows(recorded) == [row]
    expected = lines.strip().split("\n")
    if library == "official" and shape is limited:
        # For it such a run is a success.
        expected[0] = "invoke_agent endless"
    if library == "official" and shape is interrupted:
        # For it such a run is a failure.
        expected[0] = "invoke_agent endless (smolagents.utils.AgentError)"
    if library == "official" and shape is left_at_once:
        expected[0] += " (RuntimeError)"
    assert tree(recorded.spans) == expected
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns,
            {"agents": {"tools": 1}, "own_tools": {"final_answer": 1}},
            marks=pytest.mark.shape("turns", "parallel tools", "failing tool"),
        ),
        pytest.param(
            streamed, {"agents": {"tools": 1}, "own_tools": {"final_answer": 1}}, marks=pytest.mark.shape("stream")
        ),
        pytest.param(left_early, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(
            managed,
            {
                "agents": {"parent": 1, "helper": 1},
                "nested": ("helper",),
                "own_tools": {"helper": 1, "final_answer": 2},
            },
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            named_alike,
            {"agents": {"agent": 1}, "own_tools": {"final_answer": 1}},
            marks=pytest.mark.bad_input("tool named like a model"),
        ),
        pytest.param(
            interrupted, {"agents": {"endless": 1}, "status": "cancelled"}, marks=pytest.mark.shape("cancelled")
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(library, recorded, make, server, shape, facts):
    shape(make)
    compare(recorded, count, server.requests, (GIVEN, MADE), **facts)


def test_tools_have_outcomes_whichever_kind_of_agent_calls_them(recorded, make):
    for shape, name, outcome in (
        (in_turns, "bad", "timeout"),
        (code, "bad", "timeout"),
        (refused, "add", "invalid_arguments"),
    ):
        recorded.clear()
        shape(make)
        assert recorded.span(f"execute_tool {name}").attributes["rl.tool.outcome"] == outcome


class LocalModel(Model):
    """Without a client, as `TransformersModel`; with one it asks through that."""

    def __init__(self, client=None):
        super().__init__(model_id="local")
        self.client = client

    def generate(self, messages, **_):
        if self.client is not None:
            return self.client.generate(messages)
        usage = TokenUsage(input_tokens=GIVEN, output_tokens=MADE)
        return ChatMessage("assistant", "<code>\nfinal_answer('x')\n</code>", token_usage=usage)

    def generate_stream(self, messages, **_):
        for given, text in ((GIVEN, "<code>\n"), (0, "final_answer('x')\n"), (0, "</code>")):
            yield ChatMessageStreamDelta(text, token_usage=TokenUsage(input_tokens=given, output_tokens=MADE // 3))


@pytest.mark.parametrize("stream_outputs", [False, True])
def test_a_model_without_a_client_has_calls_with_its_tokens(recorded, make, stream_outputs):
    make("agent", CodeAgent, model=LocalModel(), stream_outputs=stream_outputs).run("go")
    assert rows(recorded) == [(1, 1, 0, 2, 0, "finished")]
    code = [". execute_tool python_interpreter", ". . execute_tool final_answer"]
    assert tree(recorded.spans) == ["invoke_agent agent", ". chat local", *code]
    values = recorded.span("chat local").attributes
    assert (values["gen_ai.usage.input_tokens"], values["gen_ai.usage.output_tokens"]) == (GIVEN, MADE)


def test_a_model_that_asks_through_an_instrumented_client_has_one_call_and_one_span_for_it(recorded, make, server):
    client = OpenAIServerModel(model_id="code", api_base=server.base_url, api_key="x")
    make("agent", CodeAgent, model=LocalModel(client)).run("go")
    assert rows(recorded) == [(3, 3, 0, 6, 2, "finished")]
    chats = [span for span in recorded.spans if span.attributes["gen_ai.operation.name"] == "chat"]
    assert [(span.name, span.attributes["gen_ai.usage.output_tokens"]) for span in chats] == [("chat local", MADE)] * 3


@pytest.mark.skipif(
    "timeout_seconds" not in inspect.signature(LocalPythonExecutor).parameters, reason="this version has no limit"
)
def test_code_that_takes_too_long_is_a_timeout(recorded, make):
    code = "<code>\nimport time\ntime.sleep(0.2)\n</code>"
    model = LocalModel()
    model.generate = lambda *_, **__: ChatMessage("assistant", code)
    limits = {"executor_kwargs": {"timeout_seconds": 0.01}, "additional_authorized_imports": ["time"], "max_steps": 1}
    make("agent", CodeAgent, model=model, **limits).run("go")
    assert recorded.span("execute_tool python_interpreter").attributes["rl.tool.outcome"] == "timeout"


class Elsewhere(RemotePythonExecutor):
    def run_code_raise_errors(self, code):
        raise AgentError("no connection", self.logger)


def test_code_that_runs_elsewhere_has_its_call(recorded, make):
    logger = AgentLogger(LogLevel.OFF)
    agent = make("agent", CodeAgent, tools=[], model=LocalModel(), max_steps=1, executor=Elsewhere([], logger))
    agent.python_executor.send_tools = lambda _: None
    agent.run("go")
    assert recorded.span("execute_tool python_interpreter").attributes["rl.tool.outcome"] == "tool_error"


def test_code_is_recorded_by_our_switch_alone(recorded, make, monkeypatch):
    for wanted in (False, True):
        recorded.clear()
        if wanted:
            monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        make("agent", CodeAgent, model=LocalModel()).run("go")
        content = recorded.span("execute_tool python_interpreter").attributes
        assert ("final_answer('x')" in content.get("gen_ai.tool.call.arguments", "")) is wanted


@tool
def use(tool: str) -> str:
    """Use.

    Args:
        tool: one
    """
    return tool


def test_a_tool_may_have_any_parameter(recorded, library):
    assert use(tool="x") == "x"
    assert recorded.span("execute_tool use").attributes["rl.tool.outcome"] == "ok"


def test_classes_of_models_without_end_are_not_kept(recorded, make):
    kinds = WeakSet()
    for _ in range(models._MOST_CLASSES + 8):
        kind = type("Made", (LocalModel,), {"generate": lambda *_, **__: None})
        kinds.add(kind)
        make("agent", model=kind())
    del kind
    gc.collect()
    assert len(kinds) <= models._MOST_CLASSES
