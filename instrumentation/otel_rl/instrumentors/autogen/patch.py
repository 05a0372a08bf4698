"""Patches of the functions that make AutoGen's spans, and of those that run agents and teams."""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import NoOpTracerProvider

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import observing, replacing
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall, record_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Token

scope = Scope("autogen")
#: Documented at ``SingleThreadedAgentRuntime``.
_NO_MESSAGE_SPANS = "AUTOGEN_DISABLE_RUNTIME_TRACING"
#: The call of a model that is executed here: its span does not know the arguments.
_asked: ContextVar[Any] = ContextVar("otel_rl_autogen_call", default=None)


def _quiet_by_default(original: Callable[..., None]) -> Callable[..., None]:
    """Switch off the spans of messages, unless the user has decided or gives a runtime a provider of its own."""

    @functools.wraps(original)
    def _init(helper: Any, tracer_provider: Any, *args: Any, **kwargs: Any) -> None:
        if tracer_provider is None and _NO_MESSAGE_SPANS not in os.environ:
            tracer_provider = NoOpTracerProvider()
        original(helper, tracer_provider, *args, **kwargs)

    return _init


def _trace_tool_span(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def trace_tool_span(*args: Any, **kwargs: Any) -> Any:
        return _followed(original(*args, **kwargs), kwargs.get("tool_name", *args), kwargs.get("tool_call_id"))

    return trace_tool_span


@contextmanager
def _followed(tool_span: Any, name: str, call_id: str | None) -> Iterator[Any]:
    with tool_span as span:
        asked = _asked.get()
        arguments = asked.arguments if asked is not None and asked.id == call_id else None
        with ToolCall(scope, name, call_id, arguments):
            yield span


def _execution_begins(tool_call: Any, *_: Any, **__: Any) -> tuple[Token[Any], Any]:
    return _asked.set(tool_call), tool_call


def _execution_ended(state: tuple[Token[Any], Any], executed: Any, _: BaseException | None) -> None:
    token, asked = state
    _asked.reset(token)
    if executed is not None and executed[1].content == f"Error: tool '{asked.name}' not found in any workbench":
        record_unknown(scope, asked.name, asked.id)


def _agent_begins(given: Mapping[str, Any]) -> AgentRun:
    return AgentRun(scope, runs.agent(given["self"].name), has_span=False)


def _team_begins(given: Mapping[str, Any]) -> AgentRun:
    return AgentRun(scope, runs.workflow(given["self"].name))


patch_agents = following("BaseChatAgent.run", "BaseChatAgent.run_stream", begin=_agent_begins)
patch_teams = following("BaseGroupChat.run_stream", begin=_team_begins)
#: What models ask for, among it tools that do not exist.
patch_tool_calls = observing("AssistantAgent._execute_tool_call", begin=_execution_begins, end=_execution_ended)
patch_message_spans = replacing("TraceHelper.__init__", _quiet_by_default)
patch_tool_spans = replacing("trace_tool_span", _trace_tool_span)
