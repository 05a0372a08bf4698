"""Spans of other instrumentors: who already stands for a model call, and how to add to what they record.

One owner per library: where another package has a span for the call in progress, ours adds to it and
counts no token a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_current
from opentelemetry.trace import Status, StatusCode

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

#: The outermost inference of ``opentelemetry-util-genai`` (>= 1.3b0) is in the context under this key. Read by its name
#: and not imported: the package still renames its modules from release to release.
INFERENCE_CONTEXT_KEY = "opentelemetry.genai.client.inference.context"
#: Embeddings have a key of their own there.
EMBEDDING_CONTEXT_KEY = "opentelemetry.genai.client.embedding.context"
#: Scopes that emit nothing but spans of model calls.
_MODEL_CALL_SCOPES = ("opentelemetry.instrumentation.openai", "openinference.instrumentation.openai")
_MODEL_CALL_OPERATIONS = frozenset(
    {
        attributes.GenAiOperationNameValues.CHAT,
        attributes.GenAiOperationNameValues.TEXT_COMPLETION,
        attributes.GenAiOperationNameValues.GENERATE_CONTENT,
        attributes.GenAiOperationNameValues.EMBEDDINGS,
    }
)
_AGENT_SCOPES = ("openai_agents", "openai-agents")


def suppressed() -> bool:
    """True inside a block for which the program switched instrumentation off."""
    context = get_current()
    return bool(context.get(_SUPPRESS_INSTRUMENTATION_KEY) or context.get("suppress_instrumentation"))


def inference_span() -> Span | None:
    """The span of another instrumentor that stands for the model call in progress, or None."""
    context = get_current()
    span = trace_api.get_current_span(context)
    if context.get(INFERENCE_CONTEXT_KEY) is not None or context.get(EMBEDDING_CONTEXT_KEY) is not None:
        return span
    # SDK spans can be read; everything else (no parent, a remote parent) has no scope.
    scope = getattr(span, "instrumentation_scope", None)
    if scope is None or not span.is_recording() or scope.name.startswith("otel_rl."):
        return None
    if scope.name.startswith(_MODEL_CALL_SCOPES) and not any(name in scope.name for name in _AGENT_SCOPES):
        return span
    operation = (getattr(span, "attributes", None) or {}).get(attributes.GEN_AI_OPERATION_NAME)
    return span if operation in _MODEL_CALL_OPERATIONS else None


def span_context(span: Span, base: Context | None = None) -> Context:
    """A context in which ``span`` is current; without ``base``, made from the current one."""
    return trace_api.set_span_in_context(span, base)


def add_attributes(span: Span, values: Mapping[str, Any]) -> None:
    """Set ``values`` on a span of whoever; None values are left out, long strings cut."""
    if span.is_recording():
        span.set_attributes(clean(values))


def mark_error(span: Span, kind: str) -> None:
    """Make ``span`` an error of type ``kind`` without ending it."""
    if span.is_recording():
        span.set_attribute(attributes.ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, kind))
