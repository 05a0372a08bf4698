"""The tool that runs in a context, whoever has a span for it, and whether the trace is sampled or not.

Calls inside of it ask here whether they are a call of their own. Its span cannot tell: one that is not sampled has no
attributes, and some tools have none while they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.context import create_key, get_current, get_value, set_value

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlCallKindValues
from otel_rl.telemetry import open_trajectory, progress
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.progress import CallBegin, CallState
    from otel_rl.tools.outcomes import Failure

_KEY = create_key("otel_rl.tool")


@dataclass(slots=True, eq=False, repr=False)
class OpenTool(open_trajectory.WeaklyHeld):
    """A tool that runs.

    Attributes:
        name: its name.
        scope: name of the scope whose instrumentor has seen the call.
        span: the span that stands for it; None where none is open.
        is_measured: somebody records its duration, us or the owner of the span.
        has_ended: a task that outlives it is inside of no tool.
        inner: how the last call failed that it stands for, of the same name inside of it; None if that went well.
        trajectory: the one that it runs in, once :func:`context_with` has put it there.
        begin, last_inside: see :class:`otel_rl.telemetry.progress.OpenCall`.
    """

    name: str
    scope: str
    span: Span | None = None
    is_measured: bool = True
    has_ended: bool = False
    inner: Failure | None = None
    trajectory: OpenTrajectory | None = None
    begin: CallBegin | None = None
    last_inside: float = 0.0

    def state(self) -> CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self.has_ended:
            return None
        values = {attributes.GEN_AI_TOOL_NAME: self.name}
        parent = progress.parent_of(self.span)
        return progress.CallState(RlCallKindValues.TOOL, self.name, values, self.span, self.trajectory, parent)


def here(context: Context | None = None) -> OpenTool | None:
    """Return the tool of ours that runs in ``context``, by default the current one; the innermost."""
    tool = get_value(_KEY, context)
    return tool if isinstance(tool, OpenTool) and not tool.has_ended else None


def context_with(tool: OpenTool, context: Context | None = None) -> Context:
    """Return a context inside of ``tool``, made of ``context`` or of the current one."""
    context = get_current() if context is None else context
    tool.trajectory = open_trajectory.current(context)
    progress.call_began(tool, here(context))
    return set_value(_KEY, tool, context)


def enter(tool: OpenTool) -> Token[Context]:
    """Be inside of ``tool`` until :func:`leave`."""
    return attach(context_with(tool))


def leave(tool: OpenTool, token: Token[Context], *, failed: bool = False) -> None:
    """End the tool, which has returned or raised."""
    ended(tool, failed=failed)
    detach(token)


def ended(tool: OpenTool, *, failed: bool = False, was_left: bool = False) -> None:
    """Note that the tool has returned or raised, or was left; a second call does nothing."""
    tool.has_ended = True
    progress.call_is_over(tool, RlCallKindValues.TOOL, tool.name, failed=failed, was_left=was_left)
