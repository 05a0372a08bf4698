"""Instrumenting and uninstrumenting LangChain leaves the original objects behind."""

from __future__ import annotations

import inspect

import langchain_core.callbacks.manager as callback_managers
import langchain_core.runnables.base as runnables
import langchain_core.tools.base as tools
import pytest
from langchain_core.tools import tool

from otel_rl.instrumentors.langchain import LangChainInstrumentor, other_instrumentors

tool_node = pytest.importorskip("langgraph.prebuilt.tool_node")

OFFICIAL = "opentelemetry.instrumentation.genai.langchain.callback_handler"
TARGETS = [
    (callback_managers.CallbackManager, "on_chain_start"),
    (callback_managers.AsyncCallbackManager, "on_chain_start"),
    (callback_managers.AsyncCallbackManagerForChainRun, "on_chain_end"),
    (tools.BaseTool, "run"),
    (tools.BaseTool, "arun"),
    (tool_node.ToolNode, "_validate_tool_call"),
    *((module, "set_config_context") for module in (runnables, tools) if hasattr(module, "set_config_context")),
]


def _raw():
    return [vars(owner)[name] for owner, name in TARGETS]


def test_uninstrumenting_restores_the_original_objects(recorded):
    before = _raw()
    LangChainInstrumentor().instrument(skip_dep_check=True)
    replaced = _raw()
    LangChainInstrumentor().uninstrument()
    assert all(new is not old for new, old in zip(replaced, before, strict=True))
    assert all(now is old for now, old in zip(_raw(), before, strict=True))


def test_the_official_handler_is_restored_too(recorded):
    module = pytest.importorskip(OFFICIAL)
    handler = module.OpenTelemetryLangChainCallbackHandler
    names = ("on_tool_end", "on_tool_error", "on_chain_error")
    before = [vars(handler)[name] for name in names]
    LangChainInstrumentor().instrument(skip_dep_check=True)
    assert all(vars(handler)[name] is not old for name, old in zip(names, before, strict=True))
    LangChainInstrumentor().uninstrument()
    assert [vars(handler)[name] for name in names] == before


def test_kinds_and_signatures_stay(recorded):
    signatures = [inspect.signature(getattr(owner, name)) for owner, name in TARGETS]
    LangChainInstrumentor().instrument(skip_dep_check=True)
    try:
        assert [inspect.signature(getattr(owner, name)) for owner, name in TARGETS] == signatures
        assert inspect.iscoroutinefunction(tools.BaseTool.arun)
        assert inspect.iscoroutinefunction(callback_managers.AsyncCallbackManager.on_chain_start)
    finally:
        LangChainInstrumentor().uninstrument()


def test_after_uninstrumenting_nothing_is_recorded(recorded):
    LangChainInstrumentor().instrument(skip_dep_check=True)
    LangChainInstrumentor().uninstrument()

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert add.invoke({"a": 1, "b": 2}) == 3
    assert recorded.spans == []


def test_the_owner_is_known_only_while_it_is_active(recorded):
    module = pytest.importorskip("opentelemetry.instrumentation.genai.langchain")
    assert not other_instrumentors.is_taken()
    module.LangChainInstrumentor().instrument(skip_dep_check=True)
    assert other_instrumentors.is_taken()
    module.LangChainInstrumentor().uninstrument()
    assert not other_instrumentors.is_taken()


def test_a_defect_of_ours_does_not_reach_the_tool(ours, recorded, monkeypatch):
    from otel_rl.instrumentors.langchain import tools as our_tools

    def fail(*_, **__):
        raise RuntimeError("ours")

    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(our_tools, "ToolCall", fail)
    monkeypatch.setattr(our_tools, "failure_in", fail)

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert add.invoke({"a": 1, "b": 2}) == 3
