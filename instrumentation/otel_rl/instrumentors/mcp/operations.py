"""One request of the protocol: what it asks for, and how it ended."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import ErrorTypeValues, GenAiOperationNameValues
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.tools import outcomes
from otel_rl.tools.outcomes import CANCELLED, INVALID_ARGUMENTS, TIMEOUT, TOOL_ERROR, UNKNOWN_TOOL
from otel_rl.tools.sizes import size_of

TOOLS_CALL = "tools/call"
INITIALIZE = "initialize"
_PROMPTS_GET = "prompts/get"

CONNECTION_CLOSED = "connection_closed"

#: Methods of the protocol, all revisions and both directions; a server may have others.
_METHODS = frozenset(
    {
        "completion/complete",
        "elicitation/create",
        INITIALIZE,
        "logging/setLevel",
        "ping",
        _PROMPTS_GET,
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "server/discover",
        "subscriptions/listen",
        TOOLS_CALL,
        "tools/list",
    }
)
_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601
#: What the library itself raises with when no answer came in time: 1.x the status of HTTP, 2.x a code of its own.
_TIMEOUT_CODES = frozenset({408, -32001})
_CLOSED_CODE = -32000
#: Begins of what the library says: of a pipe, and of an answer over HTTP (2.3, `mcp.client.streamable_http`).
_CLOSED_MESSAGES = ("Connection closed", "SSE stream ended without", "SSE stream failed")
#: The sender is to blame, which is no error of the receiver:
#: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/model/mcp/common.yaml
_FAULTS_OF_SENDER = frozenset({-32700, -32600, _METHOD_NOT_FOUND, _INVALID_PARAMS, -32002})
#: Texts by which servers report, in a result, what the protocol has no code for. Those of mcp 1.x and 2.x.
_UNKNOWN = re.compile(r"(MCP error -?\d+: )?(Unknown tool\b|Tool \S+ not found)", re.IGNORECASE)
_UNKNOWN_PROMPT = re.compile(r"Unknown prompt\b|Prompt \S+ not found", re.IGNORECASE)
_INVALID = re.compile(
    r"Input validation error: |(Error executing tool \S+: )?\d+ validation errors? for \w*(Arguments|params)\b"
    r"|(MCP error -32602: )?Input validation error|Invalid arguments for tool "
)
#: Characters of a message that are looked at.
_START = 300
#: Names of the trace context in `_meta`:
#: https://modelcontextprotocol.io/seps/414-request-meta
_CARRIED = ("traceparent", "tracestate", "baggage")
_VERSION = "io.modelcontextprotocol/protocolVersion"
#: Longest value of them; W3C lets receivers drop baggage beyond this.
_LONGEST = 8192


class McpRequest(NamedTuple):
    """A request: its method, its parameters as a mapping or an object of the library, and its number."""

    method: str
    params: Any
    request_id: Any = None

    @property
    def tool(self) -> str | None:
        """Name of the tool, where one is called."""
        return self._name() if self.method == TOOLS_CALL else None

    @property
    def arguments(self) -> Any:
        """The arguments of the tool."""
        return field(self.params, "arguments")

    @property
    def name(self) -> str:
        """Name of the span."""
        target = self.tool or self._prompt()
        return f"{self.method} {target}" if target else self.method

    def without_names(self, outcome: RequestOutcome) -> McpRequest:
        """Return the operation as metrics and names of spans show it: clients can make up any number of names."""
        is_refused = outcome.is_unknown or (self.tool is not None and outcome.code is not None)
        if not is_refused:
            return self
        is_made_up = outcome.code == str(_METHOD_NOT_FOUND) and self.method not in _METHODS
        method = ErrorTypeValues.OTHER if is_made_up else self.method
        has_name = self.tool is not None or self._prompt() is not None
        return McpRequest(method, {"name": ErrorTypeValues.OTHER} if has_name else None, self.request_id)

    def _prompt(self) -> str | None:
        return self._name() if self.method == _PROMPTS_GET else None

    def _name(self) -> str | None:
        name = field(self.params, "name")
        return name if isinstance(name, str) else None

    def labels(self) -> dict[str, Any]:
        """Attributes that may be on metrics."""
        operation = GenAiOperationNameValues.EXECUTE_TOOL if self.method == TOOLS_CALL else None
        return {
            attributes.MCP_METHOD_NAME: self.method,
            attributes.GEN_AI_OPERATION_NAME: operation,
            attributes.GEN_AI_TOOL_NAME: self.tool,
            attributes.GEN_AI_PROMPT_NAME: self._prompt(),
        }

    def details(self) -> dict[str, Any]:
        """Attributes for the span alone."""
        uri = field(self.params, "uri") if self.method.startswith("resources/") else None
        return {
            attributes.MCP_RESOURCE_URI: None if uri is None else str(uri),
            attributes.JSONRPC_REQUEST_ID: None if self.request_id is None else str(self.request_id),
            attributes.RL_TOOL_ARGUMENTS_SIZE: size_of(self.arguments or {}) if self.tool else None,
        }


class RequestOutcome(NamedTuple):
    """How a request ended.

    Attributes:
        error: its ``error.type``.
        code: of the error of the protocol that the other end answered with.
        is_unknown: the receiver may know no tool, prompt or method of the name that it was asked for.
        fault: outcome of a tool call that its sender is to blame for, which is no error of the receiver.
    """

    error: str | None = None
    code: str | None = None
    is_unknown: bool = False
    fault: str | None = None

    @property
    def of_tool(self) -> str:
        """The outcome of the tool call, where it was one."""
        return self.fault or (outcomes.OK if self.error is None else outcomes.declared(self.error).outcome)


OK = RequestOutcome()


def of_answer(operation: McpRequest, result: Any) -> RequestOutcome:
    """Return the outcome of a request that got a result; one that says ``isError`` is a tool's failure."""
    if operation.method != TOOLS_CALL or not (field(result, "isError") or field(result, "is_error")):
        return OK
    message = _message(result)
    if _UNKNOWN.match(message):
        return RequestOutcome(UNKNOWN_TOOL, is_unknown=True)
    return RequestOutcome(INVALID_ARGUMENTS if _INVALID.match(message) else TOOL_ERROR)


def of_error(operation: McpRequest, error: BaseException) -> RequestOutcome:
    """Return the outcome of a request that raised, for its sender."""
    data = error_data(error)
    if data is None:
        return _of_exception(error)
    code, message = data
    if code in _TIMEOUT_CODES:
        return RequestOutcome(TIMEOUT)
    if code == _CLOSED_CODE and message.startswith(_CLOSED_MESSAGES):
        return RequestOutcome(CONNECTION_CLOSED)
    if operation.method == TOOLS_CALL and code == _INVALID_PARAMS:
        return RequestOutcome(UNKNOWN_TOOL if _UNKNOWN.match(message) else INVALID_ARGUMENTS, str(code))
    return RequestOutcome(str(code), str(code))


def of_failure(error: BaseException) -> RequestOutcome:
    """Return the outcome of a request whose handler raised, for its receiver."""
    data = error_data(error)
    if data is None and type(error).__name__ == "ValidationError" and type(error).__module__.startswith("pydantic"):
        # mcp 2.x answers so: mcp.shared.jsonrpc_dispatcher, `handler_exception_to_error_data`, 2.3.0.
        data = _INVALID_PARAMS, ""
    if data is not None:
        return of_refusal(*data)
    message = error.args[0] if error.args else None
    return _of_exception(error)._replace(is_unknown=isinstance(message, str) and _is_unknown(message))


def of_refusal(code: int, message: str = "") -> RequestOutcome:
    """Return the outcome of a request that its receiver answered with an error."""
    is_unknown = _is_unknown(message)
    if code not in _FAULTS_OF_SENDER:
        return RequestOutcome(str(code), str(code), is_unknown)
    return RequestOutcome(None, str(code), is_unknown=True, fault=UNKNOWN_TOOL if is_unknown else INVALID_ARGUMENTS)


def _is_unknown(message: str) -> bool:
    start = message[:_START]
    return bool(_UNKNOWN.match(start) or _UNKNOWN_PROMPT.match(start))


def _of_exception(error: BaseException) -> RequestOutcome:
    outcome = outcomes.outcome_of(error)
    return RequestOutcome(outcome if outcome in (TIMEOUT, CANCELLED) else error_type(error))


def error_data(error: Any) -> tuple[int, str] | None:
    """Code and message of an error of the protocol, or of the exception that holds one."""
    data = getattr(error, "error", error)
    code, message = getattr(data, "code", None), getattr(data, "message", None)
    if isinstance(code, int) and isinstance(message, str):
        return int(code), message[:_START]
    return None


def field(value: Any, name: str) -> Any:
    """``name`` of a mapping or an object; None where it has none."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def result_size(result: Any) -> int:
    """Size of what a tool returned: its content, and structured content where that is all there is."""
    content = field(result, "content") or field(result, "structuredContent") or field(result, "structured_content")
    return size_of(content)


def version_in(params: Any) -> str | None:
    """Version of the protocol that the request itself names, as it does since revision 2026-07-28."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def plain(value: Any) -> Any:
    """Return a result as the mapping that goes over the wire."""
    dump = getattr(value, "model_dump", None)
    return dump(by_alias=True, mode="json", exclude_none=True) if dump is not None else value


def carrier(meta: Any) -> dict[str, str]:
    """Return the trace context in a request's ``_meta``, as far as it is text: anybody may have written it."""
    fields = meta if isinstance(meta, dict) else getattr(meta, "model_extra", None)
    if not isinstance(fields, dict):
        return {}
    texts = {name: fields.get(name) for name in _CARRIED}
    return {name: text for name, text in texts.items() if isinstance(text, str) and len(text) <= _LONGEST}


def _message(result: Any) -> str:
    parts = field(result, "content")
    text = field(parts[0], "text") if isinstance(parts, list) and parts else None
    return text[:_START] if isinstance(text, str) else ""
