"""Defines which exceptions count as errors of a tool or node, in our spans and the official ones."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any

#: ``error.type`` of a tool that reported a failure in its result instead of raising.
TOOL_ERROR = "tool_error"
#: ``error.type`` of a tool that the agent does not have.
UNKNOWN_TOOL = "unknown_tool"


#: True where the tool that returned last in this context had handled an exception of its own.
_handled: ContextVar[bool] = ContextVar("otel_rl_langchain_handled_error", default=False)


def formatted(_: Any, __: Any, ___: Any, ____: Any, status: str) -> None:
    """Before ``langchain_core.tools.base._format_output``, which every tool that returns ends with.

    A tool that is called directly has no message to put its status in: what it returns is a text like any other.
    """
    _handled.set(status == "error")


def failure_in(result: Any) -> str | None:
    """``error.type`` for what a tool returned, where it handled an exception or gave a message of status "error"."""
    if _handled.get():
        return TOOL_ERROR
    # Tools return anything: a data frame has its column "status" there, whose comparison has no truth value.
    is_message = hasattr(result, "tool_call_id") and isinstance(getattr(result, "status", None), str)
    return TOOL_ERROR if is_message and result.status == "error" else None


def error_in(error: BaseException | None) -> BaseException | None:
    """``error`` unless it only steers: an interrupt or a command of LangGraph, a stream that its reader closed."""
    if error is None or isinstance(error, GeneratorExit):
        return None
    errors = sys.modules.get("langgraph.errors")
    steering = getattr(errors, "GraphBubbleUp", None)
    return None if steering is not None and isinstance(error, steering) else error
