"""Model calls that no instrumentor sees: the program marks them, or the instrumentor of an agent library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api

from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.fields import count_of, fields_of
from otel_rl.inference.requests import EMBEDDINGS, Endpoint, ModelRequest
from otel_rl.semconv.attributes import GenAiOperationNameValues, GenAiProviderNameValues
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.telemetry.deferral import Moment

_scope = Scope("api")
#: An answer of OpenAI's protocol has one of these. Other objects may use its further fields for something else.
_OF_AN_ANSWER = ("choices", "output", "usage")


class ModelCall:
    """The call, and what the program says of it."""

    def __init__(
        self, model: object, operation: str, provider: object, parameters: Mapping[str, Any], scope: Scope = _scope
    ) -> None:
        endpoint = EMBEDDINGS if operation == EMBEDDINGS.operation else Endpoint("", operation)
        server = servers.unplaced(GenAiProviderNameValues.OTHER if provider is None else str(provider))
        self._operation = operation
        self._call = InferenceCall(scope, ModelRequest(endpoint, server, {**parameters, "model": str(model)}))
        span = self._call.span
        context = trace_api.set_span_in_context(span) if span.get_span_context().is_valid else None
        self._token: Token[Context] | None = attach(ownership.context_inside(self._call, context))

    def usage(self, input_tokens: Any, output_tokens: Any, cached_tokens: Any) -> None:
        """Tokens as the program counted them; what it does not say stays."""
        answer = self._call.answer
        counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
        for name, value in counts.items():
            count = None if value is None else count_of(number(value))
            if count is not None:
                setattr(answer, name, count)

    def finish(self, reason: object) -> None:
        """Why the model stopped."""
        self._call.answer.finish(str(reason))

    def first_token(self) -> None:
        """Record the time to the first token."""
        self._call.first_chunk_arrived()

    def observe(self, value: Any) -> None:
        """Read an answer; text is the answer itself."""
        if isinstance(value, str):
            is_chat = self._operation == GenAiOperationNameValues.CHAT
            choice: dict[str, Any] = (
                {"message": {"role": "assistant", "content": value}} if is_chat else {"text": value}
            )
            value = {"choices": [choice]}
        fields = fields_of(value)
        if any(name in fields for name in _OF_AN_ANSWER):
            self._call.answer.observe(value)

    def leave(self) -> None:
        """Make current again what was current before."""
        token, self._token = self._token, None
        detach(token)

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End the call."""
        self.leave()
        if isinstance(error, str):
            self._call.answer.failure, error = error, None
        self._call.finish(error, at=(at.counter, at.wall) if at else None)
