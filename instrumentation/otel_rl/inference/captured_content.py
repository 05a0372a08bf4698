"""What was said in a model call, where the user wants it on its span, on an event of its own, or on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.inference import messages
from otel_rl.semconv import attributes, events
from otel_rl.telemetry.attribute_values import clean

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.inference.answers import Answer
    from otel_rl.inference.requests import ModelRequest
    from otel_rl.telemetry.content_capture import Capture
    from otel_rl.telemetry.scope import Scope

_SITE = guard("inference.content")


class CapturedContent:
    """The content of one call: of its request from the start, as the program may change its list of messages later."""

    def __init__(self, wanted: Capture, request: ModelRequest) -> None:
        self._wanted = wanted
        self._input: dict[str, str | None] = {}
        with _SITE:
            self._input = messages.of_request(request.body)

    def ended(
        self,
        scope: Scope,
        request: ModelRequest,
        answer: Answer,
        values: dict[str, Any],
        kind: str | None,
        context: Context | None,
    ) -> dict[str, Any]:
        """Record the event, where one is wanted; return what the span says beside ``values``, its other attributes.

        ``kind`` is the ``error.type`` of a call that failed.
        """
        with _SITE:
            said = {**self._input, attributes.GEN_AI_OUTPUT_MESSAGES: answer.output_messages()}
            if self._wanted.event:
                scope.event(
                    events.GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS,
                    attributes={**request.labels, **request.values, **values, **said, attributes.ERROR_TYPE: kind},
                    context=context,
                )
            return clean(said) if self._wanted.span else {}
        return {}
