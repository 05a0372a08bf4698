"""Spans of other instrumentors for a call in progress, and how to add to what they record.

One owner per call: where another instrumentor, foreign or ours, has a span for it, ours adds to that span. Scopes are
compared whole, never by prefix. A metric is withheld only where the owner emits it.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import reduce
from itertools import islice
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from opentelemetry import trace as trace_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, create_key, get_current, set_value
from opentelemetry.trace import INVALID_SPAN

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import clean
from otel_rl.telemetry.scope import has_our_provider
from otel_rl.tools.calls import OPENINFERENCE_KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.inference.requests import Endpoint
    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: The outermost inference of ``opentelemetry-util-genai`` (>= 1.3b0) is in the context under this key. Read by its name
#: and not imported: the package still renames its modules from release to release.
INFERENCE_CONTEXT_KEY = "opentelemetry.genai.client.inference.context"
#: Embeddings have a key of their own there.
EMBEDDING_CONTEXT_KEY = "opentelemetry.genai.client.embedding.context"


_PARENT_CALL = create_key("otel_rl.model_call")


class ParentCall(Protocol):
    """A call whose boundary the program has drawn itself; ``role`` says whose it is."""

    role: str | None

    def child_began(self) -> None:
        """Note that a call of an instrumented client or engine inside counts in the trajectory, instead of this one."""

    def counts_in(self, trajectory: OpenTrajectory | None) -> bool:
        """Return whether it counts in ``trajectory``."""

    def child_ended(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Note the tokens of a call inside, perhaps only after the end of this one."""


class Owner(NamedTuple):
    """An instrumentor of others, by the name of its scope.

    Attributes:
        only_model_calls: every span of the scope stands for a model call, whatever its attributes are.
        measures: operations for which it records the ``gen_ai.client.*`` metrics, beside the spans.
        is_partial: its spans lack attributes of the conventions; ours adds them, and content by our own switch.
        is_known_by_name: its spans have their operation as the first word of their name until they end.
    """

    only_model_calls: bool
    measures: frozenset[str]
    is_partial: bool = False
    is_known_by_name: bool = False


_ALL = frozenset(
    {
        attributes.GenAiOperationNameValues.CHAT,
        attributes.GenAiOperationNameValues.TEXT_COMPLETION,
        attributes.GenAiOperationNameValues.GENERATE_CONTENT,
        attributes.GenAiOperationNameValues.EMBEDDINGS,
    }
)


_NONE: frozenset[str] = frozenset()
#: OpenLLMetry (traceloop) 0.62.4 has no metrics for text completions and for responses.
_TRACELOOP = frozenset({attributes.GenAiOperationNameValues.CHAT, attributes.GenAiOperationNameValues.EMBEDDINGS})
#: Of a scope that is not listed a span is known by its ``gen_ai.operation.name``; who names it so emits metrics too.
OWNERS = {
    "opentelemetry.instrumentation.openai_v2": Owner(only_model_calls=True, measures=_ALL),
    # OpenLLMetry has a scope for each major version of the client.
    "opentelemetry.instrumentation.openai.v0": Owner(only_model_calls=True, measures=_TRACELOOP),
    "opentelemetry.instrumentation.openai.v1": Owner(only_model_calls=True, measures=_TRACELOOP),
    # OpenInference records spans and nothing else.
    "openinference.instrumentation.openai": Owner(only_model_calls=True, measures=_NONE),
    "openinference.instrumentation.langchain": Owner(only_model_calls=False, measures=_NONE),
    # The client itself (2.12): no metrics, no finish reasons, few parameters. Platforms have scopes of their own.
    **{
        f"com.anthropic.sdk.python{platform}": Owner(only_model_calls=False, measures=_NONE, is_partial=True)
        for platform in ("", ".aws", ".bedrock", ".foundry", ".google_cloud", ".vertex")
    },
    # Attributes of its own only.
    "langfuse-sdk": Owner(only_model_calls=False, measures=_NONE, is_partial=True),
    # Its metrics have names of its own.
    "strands.telemetry.tracer": Owner(only_model_calls=False, measures=_NONE),
    # Of loongsuite-util-genai 0.5.0, which the decorators of dashscope use.
    "opentelemetry.util.genai.handler": Owner(only_model_calls=False, measures=_ALL, is_known_by_name=True),
}
#: Attributes of others that mark the span of a model call from its start on.
_MODEL_CALLS = ((OPENINFERENCE_KIND, "LLM"), ("langfuse.observation.type", "generation"))
_UNKNOWN_OWNER = Owner(only_model_calls=False, measures=_ALL)
#: OpenInference's instrumentors of agent libraries, for one.
_SPANS_ONLY = Owner(only_model_calls=False, measures=_NONE)
#: The span of a model call that an agent library has in progress and does not make current.
_announced: ContextVar[Span | None] = ContextVar("otel_rl_announced_model_call", default=None)


#: OpenLLMetry 0.62.4 starts the span of a response when the answer is there, and none for a raw response.
_WRAPPER_OF_RESPONSES = "opentelemetry.instrumentation.openai.v1.responses_wrappers"
_RAW_RESPONSES = frozenset({"openai._legacy_response", "openai._response"})
#: By scope of ours, modules whose functions call the client inside of a span that is not current; and the local
#: variable that holds the span, or the path to the span from one.
_WRAPPERS = {
    "otel_rl.openai": {_WRAPPER_OF_RESPONSES: "", "langfuse.openai": "generation._otel_span"},
    "otel_rl.anthropic": {
        "opentelemetry.instrumentation.anthropic": "span",
        "opentelemetry.instrumentation.anthropic.streaming": "self._span",
    },
    "otel_rl.google_genai": {
        "opentelemetry.instrumentation.google_generativeai": "span",
        # OpenInference 1.4.14 sends the request of a stream when its first chunk is read.
        "openinference.instrumentation.google_genai._stream": "self._with_span._span",
    },
}
#: Callers that are looked at.
_MOST_CALLERS = 24


class Owned(NamedTuple):
    """The call of another instrumentor.

    Attributes:
        span: its span, to add to; one that records nothing where it has none yet.
        emits_metrics: it records the ``gen_ai.client.*`` metrics of the call.
        is_partial: see :class:`Owner`.
        operation: as its span names it; None if it does not.
    """

    span: Span
    emits_metrics: bool
    is_partial: bool = False
    operation: str | None = None


def of_call(own_scope: str, endpoint: Endpoint, context: Context) -> Owned | None:
    """Return what an instrumentor other than ``own_scope`` has for the call in progress; None where it is ours."""
    around = inference_span(own_scope, context) or _announced_span()
    spans = [span for span in (around, _span_of_caller(own_scope)) if span is not None]
    if not spans:
        return None
    # The span of a client may lie inside of an inference of the package, or of a wrapper, which measures then.
    is_measured = _is_of_package(context) or any(endpoint.operation in _owner_of(span).measures for span in spans)
    return Owned(spans[0], is_measured, _owner_of(spans[0]).is_partial, _operation_of(spans[0]))


def context_inside(call: ParentCall, context: Context | None) -> Context:
    """``context``, by default the current one, as one inside of ``call``."""
    return set_value(_PARENT_CALL, call, context)


def parent_call(context: Context, trajectory: OpenTrajectory | None) -> ParentCall | None:
    """Return the call that the program opened around ``context``, in the same trajectory."""
    parent: ParentCall | None = context.get(_PARENT_CALL)  # type: ignore[assignment]  # only `context_inside` sets it
    return parent if parent is not None and parent.counts_in(trajectory) else None


def announce(span: Span) -> None:
    """Announce that model calls made in this context belong to ``span`` until it ends."""
    _announced.set(span)


def _announced_span() -> Span | None:
    span = _announced.get()
    return span if span is not None and _is_open(span) else None


def _span_of_caller(own_scope: str) -> Span | None:
    """Return the span of a function of :data:`_WRAPPERS` among the callers, the innermost."""
    wrappers = _WRAPPERS.get(own_scope, {})
    if not any(module in sys.modules for module in wrappers):
        return None
    found = None
    # There is no other way to see the callers without reading their source.
    for frame, _ in islice(walk_stack(sys._getframe(2)), _MOST_CALLERS):  # noqa: SLF001
        module = frame.f_globals.get("__name__", "")
        if module in _RAW_RESPONSES:
            return None
        if module == _WRAPPER_OF_RESPONSES:
            found = INVALID_SPAN
        elif module in wrappers:
            name, *rest = wrappers[module].split(".")
            span: Span | None = reduce(lambda value, part: getattr(value, part, None), rest, frame.f_locals.get(name))
            if span is not None and _is_open(span):
                return span
    return found


def suppressed() -> bool:
    """Return whether the program switched instrumentation off for this block."""
    context = get_current()
    return bool(context.get(_SUPPRESS_INSTRUMENTATION_KEY) or context.get("suppress_instrumentation"))


def inference_span(own_scope: str, context: Context) -> Span | None:
    """Return the span of an instrumentor other than ``own_scope`` for the model call in progress, or None."""
    span = trace_api.get_current_span(context)
    if _is_of_package(context):
        return span
    # SDK spans can be read; everything else (no parent, a remote parent) has no scope.
    scope = getattr(span, "instrumentation_scope", None)
    if scope is None or not _is_open(span) or scope.name == own_scope:
        return None
    owner = _owner_of(span)
    if owner.only_model_calls:
        return span
    values = _attributes_of(span)
    is_marked = any(values.get(key) == kind for key, kind in _MODEL_CALLS)
    return span if is_marked or _operation_of(span) is not None else None


def _is_open(span: Span) -> bool:
    return span.is_recording() and has_our_provider(span)


def _operation_of(span: Span) -> str | None:
    operation = _attributes_of(span).get(attributes.GEN_AI_OPERATION_NAME)
    if operation is None and _owner_of(span).is_known_by_name:
        operation = getattr(span, "name", "").partition(" ")[0]
    return operation if operation in _ALL else None


def _is_of_package(context: Context) -> bool:
    return context.get(INFERENCE_CONTEXT_KEY) is not None or context.get(EMBEDDING_CONTEXT_KEY) is not None


def _owner_of(span: Span) -> Owner:
    scope = getattr(span, "instrumentation_scope", None)
    if scope is None:
        return _SPANS_ONLY
    is_of_openinference = OPENINFERENCE_KIND in _attributes_of(span)
    return OWNERS.get(scope.name) or (_SPANS_ONLY if is_of_openinference else _UNKNOWN_OWNER)


def _attributes_of(span: Span) -> Mapping[str, Any]:
    return getattr(span, "attributes", None) or {}


def span_context(span: Span, base: Context | None = None) -> Context:
    """Return a context in which ``span`` is current; without ``base``, made from the current one."""
    return trace_api.set_span_in_context(span, base)


def add_attributes(span: Span, values: Mapping[str, Any]) -> None:
    """Set ``values`` on a span of whoever; None values are left out, long strings cut."""
    if span.is_recording():
        span.set_attributes(clean(values))
