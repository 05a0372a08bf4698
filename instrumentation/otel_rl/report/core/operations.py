"""Operations of spans: which are model calls, and how an operation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

MODEL_OPERATIONS = {Operation.CHAT, Operation.TEXT_COMPLETION, Operation.GENERATE_CONTENT, Operation.EMBEDDINGS}


def error_of(span: Span) -> str:
    """Return the kind of error of a span, ``""`` when it went well."""
    error = span.attributes.get(names.ERROR_TYPE)
    if error:
        return str(error)
    return (span.message or "error") if span.failed else ""
