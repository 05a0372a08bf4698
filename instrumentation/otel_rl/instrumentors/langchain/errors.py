"""Defines which exceptions count as errors of a tool or node, in our spans and the official ones."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.tools import outcomes

if TYPE_CHECKING:
    from otel_rl.tools.outcomes import Failure

#: How the tool failed that returned last in this context, where it did: it handled an exception, or returned one.
_handled: ContextVar[Failure | None] = ContextVar("otel_rl_langchain_handled_error", default=None)
#: The exception that it handles.
_excused: ContextVar[Failure | None] = ContextVar("otel_rl_langchain_excused_error", default=None)


def excused(error: BaseException, **_: Any) -> None:
    """Before a tool makes a text of an exception (``langchain_core.tools.base._handle_validation_error``)."""
    _excused.set(outcomes.declared(outcomes.outcome_of(error)))


def formatted(content: Any, _: Any, __: Any, ___: Any, status: str) -> None:
    """Before ``langchain_core.tools.base._format_output``, which every tool that returns ends with.

    A tool that is called directly has no message to put its status in: what it returns is a text like any other. Nor
    can its message hold the exception object that the tool returned.
    """
    failure = outcomes.returned(content)
    if status == "error":
        failure = _excused.get() or outcomes.declared(outcomes.TOOL_ERROR)
    _excused.set(None)
    _handled.set(failure)


def failure_in(result: Any) -> Failure | None:
    """Return the failure in what a tool returned: an exception, handled or returned, or a message of status "error"."""
    handled = _handled.get()
    if handled is not None:
        return handled
    return outcomes.declared(outcomes.TOOL_ERROR) if is_message(result) and result.status == "error" else None


def is_message(result: Any) -> bool:
    """Return whether this is a message of a tool."""
    # Tools return anything: a data frame has its column "status" there, whose comparison has no truth value.
    return hasattr(result, "tool_call_id") and isinstance(getattr(result, "status", None), str)


def content_of(result: Any) -> Any:
    """Return what the message of a tool holds, or what is no message."""
    return result.content if is_message(result) else result


def error_in(error: BaseException | None) -> BaseException | None:
    """``error`` unless it only steers: an interrupt or a command of LangGraph, a stream that its reader closed."""
    if error is None or isinstance(error, GeneratorExit):
        return None
    return None if is_a(error, "langgraph.errors", "GraphBubbleUp") else error


def is_a(value: Any, module: str, name: str) -> bool:
    """Return whether it is of a class of LangGraph, which may not be imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)
