"""A request from its sender's side: one client span, or more on the tool span that is open already."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.trace import INVALID_SPAN

from otel_rl.inference import ownership
from otel_rl.instrumentors.mcp import connections, operations
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import Scope, guard, lifecycle, open_trajectory, propagation
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.open_spans import clear_error
from otel_rl.tools import open_tools, outcomes
from otel_rl.tools.calls import ToolCall, is_tool_span

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.instrumentors.mcp.connections import Connection
    from otel_rl.instrumentors.mcp.operations import McpRequest, RequestOutcome

scope = Scope("mcp")

_TRACEPARENT = "traceparent"
#: The request that this context is sending, for the parts of the library that run inside it.
current: ContextVar[SentRequest | None] = ContextVar("otel_rl_mcp_sent_request", default=None)


class _ToolCall(ToolCall):
    """A call of a server's tool. Its span is a client span; inside another tool it is not counted as a second one."""

    __slots__ = ("_details", "_is_counted", "_is_measured", "_repeats")
    #: As they go over the wire; see :meth:`SentRequest.answered`.
    _measures_sizes = False

    def __init__(self, operation: McpRequest, name: str, details: dict[str, Any]) -> None:
        super().__init__(scope, name, arguments=operation.arguments)
        self._details = details
        around = open_tools.here()
        trajectory = open_trajectory.current()
        # An official instrumentor of LangChain attaches a context of its own, in which the tool around it is unknown.
        is_called = trajectory is not None and trajectory.calling.get(name, 0) > 0
        #: The tool around it is what the trajectory has called, and whose duration somebody records.
        self._is_counted = around is None and not is_called
        self._is_measured = around.is_measured if around is not None else is_tool_span(trace_api.get_current_span())
        #: The span of a tool whose request has failed or succeeded before, and is sent again.
        self._repeats: Span | None = None

    def _find_owner(self) -> Span | None:
        span = super()._find_owner()
        # The span of a tool stands for one request. One that it repeats gets a span of its own, inside.
        if span is not None and attributes.MCP_METHOD_NAME in (getattr(span, "attributes", None) or {}):
            self._repeats = span
            return None
        return span

    def succeeded(self) -> None:
        """Clear the failure of the call that this one repeats: the tool has what it wants now."""
        if self._repeats is not None:
            clear_error(self._repeats)
            ownership.add_attributes(self._repeats, {attributes.RL_TOOL_OUTCOME: outcomes.OK})

    def _open_span(self) -> Span:
        values = {**self._details, attributes.GEN_AI_TOOL_CALL_ARGUMENTS: self._captured_arguments()}
        return self.scope.start_span(spans.MCP_CLIENT, f"{operations.TOOLS_CALL} {self.name}", attributes=values)

    def _measure(self, elapsed: float, label: str, kind: str | None, outcome: str) -> None:
        if not self._is_measured:
            super()._measure(elapsed, label, kind, outcome)


def begin(operation: McpRequest, sender: Any) -> SentRequest | None:
    """Begin a request of ``sender``, which has the stream that it goes to; None if nothing is recorded here."""
    if not scope.enabled or ownership.suppressed():
        return None
    return SentRequest(operation, connections.of_owner(sender)).start()


@dataclass(slots=True, eq=False, repr=False)
class SentRequest:
    """One request, from :meth:`start` to the answer that :meth:`answered` or :meth:`failed` records."""

    _operation: McpRequest
    _connection: Connection
    _forks: int = field(default_factory=lambda: lifecycle.forks)
    _tool: _ToolCall | None = None
    _token: Token[Context] | None = None
    _before: SentRequest | None = field(default_factory=current.get)
    _started: float = field(default_factory=time.perf_counter)
    #: mcp 2.x has asked for its own span of this request.
    in_library: bool = False
    span: Span = INVALID_SPAN

    def start(self) -> SentRequest:
        """Open the span and make it current."""
        labels = {**self._operation.labels(), **self._connection.labels}
        values = {**labels, **self._operation.details()}
        name = self._operation.tool
        if name is not None:
            self._tool = _ToolCall(self._operation, name, values)
            self.span = self._tool.start().span
            if not self._tool.is_owned:
                ownership.add_attributes(self.span, values)
        else:
            self.span = scope.start_span(spans.MCP_CLIENT, self._operation.name, attributes=values)
            self._token = attach(trace_api.set_span_in_context(self.span))
        current.set(self)
        return self

    def inject(self, meta: MutableMapping[str, Any], *, others: bool = False) -> None:
        """Write the trace context into ``_meta``, unless the program has put its own there."""
        if _TRACEPARENT not in meta:
            propagation.inject(meta, self._connection.host, others=others)

    def note(self, values: dict[str, Any]) -> None:
        """Add attributes to the span."""
        ownership.add_attributes(self.span, values)

    def answered(self, result: Any) -> None:
        """Record that the other end has answered with a result."""
        outcome = operations.OK
        with guard("mcp.answer"):
            outcome = operations.of_answer(self._operation, result)
            if self._operation.method == operations.INITIALIZE:
                self._connection.version = operations.field(result, "protocolVersion")
            if self._tool is not None:
                self.note({attributes.RL_TOOL_RESULT_SIZE: operations.result_size(result)})
                if self._tool.is_owned and capture_content():
                    self._tool.result(operations.plain(result))
        self._end(outcome)

    def failed(self, error: BaseException) -> None:
        """Record that the other end has answered with an error, or not at all."""
        outcome = operations.OK
        with guard("mcp.error"):
            outcome = operations.of_error(self._operation, error)
        self._end(outcome)

    def _end(self, outcome: RequestOutcome) -> None:
        current.set(self._before)
        elapsed = time.perf_counter() - self._started
        if self._forks == lifecycle.forks:
            with guard("mcp.end"):
                self._finish(outcome, elapsed)
        if self._tool is not None:
            if outcome.error is None:
                self._tool.succeeded()
            elif outcome.error == outcomes.UNKNOWN_TOOL:
                # The name is a model's invention, which is no label of a metric.
                self._tool.metric_name = ErrorTypeValues.OTHER
            self._tool.end(outcome.error)
            return
        detach(self._token)
        if self._forks == lifecycle.forks:
            scope.end_span(self.span, outcome.error)

    def _finish(self, outcome: RequestOutcome, elapsed: float) -> None:
        labels = {
            **self._operation.labels(),
            **self._connection.labels,
            attributes.MCP_PROTOCOL_VERSION: operations.version_in(self._operation.params) or self._connection.version,
            attributes.RPC_RESPONSE_STATUS_CODE: outcome.code,
        }
        session = {attributes.MCP_SESSION_ID: self._connection.session_id}
        # Connections are noted while their first request is under way, and initialize agrees on the version.
        self.note({**labels, **session})
        if outcome.error == outcomes.UNKNOWN_TOOL:
            labels[attributes.GEN_AI_TOOL_NAME] = ErrorTypeValues.OTHER
        labels[attributes.ERROR_TYPE] = outcome.error
        scope.record(metrics.MCP_CLIENT_OPERATION_DURATION, elapsed, labels, trace_api.set_span_in_context(self.span))
