"""Modules and tools of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import observing
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("dspy")
#: The tool by which ``ReAct`` ends: it does nothing.
_FINISH, _NOTHING = "finish", "<lambda>"


def patch_modules(module: ModuleType, patches: Patches) -> None:
    """Follow the outermost module of a program, and agents below it."""
    if not hasattr(module, "Module"):
        # Version 2.6 has a module of this name with other contents.
        return

    def begin(given: Mapping[str, Any]) -> AgentRun | None:
        called = next(iter(given.values()))
        is_agent = bool(getattr(called, "tools", None))
        if not is_agent and getattr(module.settings, "caller_modules", None):
            return None
        name = type(called).__name__
        return AgentRun(scope, runs.agent(name) if is_agent else runs.workflow(name))

    following("Module.__call__", "Module.acall", begin=begin)(module, patches)


def _tool_begins(tool: Any, /, **arguments: Any) -> ToolCall | None:
    if tool.name == _FINISH and getattr(tool.func, "__name__", None) == _NOTHING:
        return None
    return ToolCall(scope, tool.name, arguments=arguments).start()


#: An agent makes an observation of what they raise.
patch_tools = observing("Tool.__call__", "Tool.acall", begin=_tool_begins, end=ToolCall.ended)
