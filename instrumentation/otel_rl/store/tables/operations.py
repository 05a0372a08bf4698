"""Operations of spans: which are model calls, and how an operation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as Ended
from otel_rl.semconv.attributes import RlToolOutcomeValues
from otel_rl.telemetry.attribute_values import is_cancellation

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

CANCELLED = RlToolOutcomeValues.CANCELLED
MODEL_OPERATIONS = {Operation.CHAT, Operation.TEXT_COMPLETION, Operation.GENERATE_CONTENT, Operation.EMBEDDINGS}
#: How a program leaves a stream, and the errors that other instrumentors take that for.
_LEFT, _OF_LEAVING = {Ended.ABANDONED, Ended.CLOSED}, {"_OTHER", "GeneratorExit"}
#: Status of the official instrumentor's span, which has ended before ours can say how: opentelemetry.util.genai.stream.
_ABANDONED = "abandoned stream"


def error_of(span: Span) -> str:
    """Return the kind of error of a span, ``""`` if it went well, was cancelled, or the program has left its stream."""
    kind = _kind_of(span)
    return "" if is_cancellation(kind) else kind


def outcome_of(span: Span) -> str | None:
    """Return ``cancelled`` for what was cancelled, else how a tool ended."""
    return CANCELLED if is_cancellation(_kind_of(span)) else span.attributes.get(names.RL_TOOL_OUTCOME)


def _kind_of(span: Span) -> str:
    error = span.attributes.get(names.ERROR_TYPE)
    if error in _OF_LEAVING and _was_left(span):
        return ""
    if error:
        return str(error)
    if not span.failed:
        return ""
    raised = [
        event.attributes[names.EXCEPTION_TYPE] for event in span.events if names.EXCEPTION_TYPE in event.attributes
    ]
    return str(raised[-1]) if raised else span.message or "error"


def is_fair(span: Span) -> bool:
    """Return whether the span is recorded whatever became of its rollout: means, shares and changes are of such ones.

    Of the rollouts beyond ``OTEL_RL_ROLLOUT_SPANS`` only the slowest, the failed and the suspect ones have spans.
    """
    return names.RL_SAMPLING_BEYOND_LIMIT not in span.attributes


def _was_left(span: Span) -> bool:
    return span.message == _ABANDONED or span.attributes.get(names.RL_INFERENCE_STREAM_ENDED) in _LEFT
