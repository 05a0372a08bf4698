"""A request from its receiver's side: one server span, below the sender's span where ``_meta`` names it."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import Context, get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl.api.call_content import captured
from otel_rl.inference import ownership
from otel_rl.instrumentors.mcp import connections, operations
from otel_rl.instrumentors.mcp.sending import scope
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.telemetry import guard, lifecycle, open_trajectory, propagation
from otel_rl.telemetry.content_capture import capture_content, content_as_json
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.correlation import ALLOWED
from otel_rl.tools import open_tools, outcomes
from otel_rl.tools.open_tools import OpenTool

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import Span

    from otel_rl.instrumentors.mcp.connections import Connection
    from otel_rl.instrumentors.mcp.operations import McpRequest, RequestOutcome

#: The request that this context answers, for the parts of the library that run inside it.
current: ContextVar[ReceivedRequest | None] = ContextVar("otel_rl_mcp_received_request", default=None)
#: What a client knows of its connection; the receiver of its server's requests is no server at that address.
_OF_SENDERS = (attributes.SERVER_ADDRESS, attributes.SERVER_PORT)


def begin(
    operation: McpRequest, meta: Any, receiver: Any, metadata: Any, version: str | None
) -> ReceivedRequest | None:
    """Begin a request that ``receiver`` answers on its stream, or over HTTP; None if nothing is recorded here.

    ``metadata`` is the library's of the message, ``version`` that of the protocol as far as the receiver knows it.
    """
    if not scope.enabled or ownership.suppressed():
        return None
    over_http = getattr(metadata, "request_context", None)
    connection = connections.of_owner(receiver) if over_http is None else connections.of_http_request(over_http)
    connection.version = version or connection.version
    return ReceivedRequest(operation, connection).start(meta)


@dataclass(slots=True, eq=False, repr=False)
class ReceivedRequest:
    """One request, from :meth:`start` until its answer is sent or it is given up."""

    _operation: McpRequest
    _connection: Connection
    _forks: int = field(default_factory=lambda: lifecycle.forks)
    _token: Token[Context] | None = None
    _before: ReceivedRequest | None = field(default_factory=current.get)
    _started: float = field(default_factory=time.perf_counter)
    _outcome: RequestOutcome | None = None
    #: The sender's side counts the tool; what the handler calls is inside of it.
    _tool: OpenTool | None = None
    #: mcp 2.x has asked for its own span of this request.
    in_library: bool = False
    span: Span = INVALID_SPAN

    def start(self, meta: Any) -> ReceivedRequest:
        """Open the span and make it current; ``meta`` is the request's ``_meta``, from whomever."""
        context = _context_of(meta)
        values = {
            **self._labels(self._operation),
            **self._operation.details(),
            attributes.MCP_SESSION_ID: self._connection.session_id,
            attributes.GEN_AI_TOOL_CALL_ARGUMENTS: captured(
                self._operation.arguments if self._operation.tool else None
            ),
        }
        self.span = scope.start_span(spans.MCP_SERVER, self._operation.name, attributes=values, context=context)
        context = trace_api.set_span_in_context(self.span, context)
        if self._operation.tool:
            self._tool = OpenTool(self._operation.tool, scope.name, self.span)
            context = open_tools.context_with(self._tool, context)
        self._token = attach(context)
        current.set(self)
        return self

    def _labels(self, operation: McpRequest) -> dict[str, Any]:
        return {
            **operation.labels(),
            **{name: value for name, value in self._connection.labels.items() if name not in _OF_SENDERS},
            attributes.MCP_PROTOCOL_VERSION: operations.version_in(self._operation.params) or self._connection.version,
        }

    def answers(self, answer: Any) -> None:
        """Record the answer that is about to be sent: a result or an error of the protocol."""
        if self._token is None:
            # Over already: a task that the handler has started answers another request.
            return
        refusal = operations.error_data(answer)
        if refusal is not None:
            self._outcome = operations.of_refusal(*refusal)
            return
        self._outcome = operations.of_answer(self._operation, answer)
        if self._operation.tool:
            values: dict[str, Any] = {attributes.RL_TOOL_RESULT_SIZE: operations.result_size(answer)}
            if capture_content():
                values[attributes.GEN_AI_TOOL_CALL_RESULT] = content_as_json(operations.plain(answer))
            self.span.set_attributes({name: value for name, value in values.items() if value is not None})

    def end(self, error: BaseException | None = None) -> None:
        """End the request; one that has neither answer nor error was cancelled by its sender."""
        current.set(self._before)
        token, self._token = self._token, None
        detach(token)
        outcome = self._outcome or operations.RequestOutcome(outcomes.CANCELLED)
        if error is not None and self._outcome is None:
            outcome = operations.of_failure(error)
        if self._tool is not None:
            with guard("mcp.tool_ended"):
                open_tools.ended(self._tool, failed=outcome.of_tool != outcomes.OK)
        if self._forks != lifecycle.forks:
            return
        with guard("mcp.received"):
            self._measure(outcome)
        scope.end_span(self.span, outcome.error)

    def _measure(self, outcome: RequestOutcome) -> None:
        shown = self._operation.without_names(outcome)
        if shown is not self._operation:
            self.span.update_name(shown.method)
        labels = {**self._labels(shown), attributes.RPC_RESPONSE_STATUS_CODE: outcome.code}
        if self._operation.tool:
            self.span.set_attribute(attributes.RL_TOOL_OUTCOME, outcome.of_tool)
        if outcome.code is not None:
            self.span.set_attribute(attributes.RPC_RESPONSE_STATUS_CODE, outcome.code)
        labels[attributes.ERROR_TYPE] = outcome.error
        elapsed = time.perf_counter() - self._started
        scope.record(metrics.MCP_SERVER_OPERATION_DURATION, elapsed, labels, trace_api.set_span_in_context(self.span))


def _context_of(meta: Any) -> Context:
    """Return the context that the request came with; without one, what is current unless that is over.

    A session's tasks go on in the context of the request or rollout that opened it.
    """
    context = get_current()
    carrier = operations.carrier(meta)
    if carrier or open_trajectory.has_outlived(context):
        for key in ALLOWED.keys() & baggage.get_all(context).keys():
            context = baggage.remove_baggage(key, context)
    if carrier:
        before = _trace_of(context)
        context = propagation.extract(carrier, context)
        if _trace_of(context) != before:
            context = open_trajectory.context_of_trace(context)
    span = trace_api.get_current_span(context)
    if getattr(span, "end_time", None) is not None:
        context = trace_api.set_span_in_context(INVALID_SPAN, context)
    return context


def _trace_of(context: Context) -> int:
    return trace_api.get_current_span(context).get_span_context().trace_id
