"""Spans that the package's own decorators record, if ``ENABLE_TRAJECTORY`` is set: one owner for each call.

A rollout or reward has our span by then, to which the decorator's attributes are added. A tool that the program marks
with ``observe_tool`` is one call, whether the package has a span for it or not.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import wrapt
from opentelemetry import trace as trace_api

from otel_rl.instrumentors.dashscope.processors import scope
from otel_rl.instrumentors.followed_calls import followed
from otel_rl.instrumentors.patch_functions import replacing
from otel_rl.semconv import spans
from otel_rl.telemetry import guard
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Beginnings of the names of the package's spans for a call of ``process``.
_NATIVE = ("invoke_rollout ", "invoke_reward ")
_OURS = (spans.RL_ROLLOUT.type, spans.RL_REWARD.type)


class LentTracer(wrapt.ObjectProxy):  # type: ignore[type-arg]  # generic for type checkers only
    """The package's tracer; if our span stands for the call, its span is that one."""

    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Start a span of the package, or hand out ours."""
        span = trace_api.get_current_span()
        if name.startswith(_NATIVE) and getattr(span, "name", None) in _OURS:
            return nullcontext(LentSpan(span))
        return self.__wrapped__.start_as_current_span(name, *args, **kwargs)


class LentSpan(wrapt.ObjectProxy):  # type: ignore[type-arg]  # generic for type checkers only
    """Our span: it takes attributes, and gets its outcome at the end of the call."""

    def set_status(self, *_: Any, **__: Any) -> None:
        """Leave the status to the end of the call."""

    record_exception = set_status


def _observing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _observe_tool(_fn: Any = None, **given: Any) -> Any:
        name = given.get("name")
        if callable(_fn):
            return original(_as_tool(_fn, name), **given)
        decorator = original(_fn, **given)
        return lambda function: decorator(_as_tool(function, name))

    return _observe_tool


def _as_tool(function: Any, name: str | None) -> Any:
    with guard("dashscope.observe_tool"):
        return followed(function, "observe_tool", functools.partial(_tool, name or function.__name__))
    return function


def _tool(name: str, arguments: Mapping[str, Any]) -> Any:
    # A method's own object is no argument.
    given = {key: value for key, value in arguments.items() if key not in ("self", "cls")}
    return ToolCall(scope, name, arguments=given).start()


#: ``observe_processor`` and ``trace_processor_span`` add to our span.
patch_processor_span = replacing("get_tracer", lambda get: functools.wraps(get)(lambda: LentTracer(get())))
#: The functions that the program marks with ``observe_tool``.
patch_tools = replacing("observe_tool", _observing)
