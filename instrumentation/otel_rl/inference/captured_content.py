"""What was said in a model call, where the user wants it on its span, on an event of its own, or on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api

from otel_rl.core.guard import guard
from otel_rl.inference.histories import RequestMessages
from otel_rl.semconv import attributes, events
from otel_rl.telemetry.attribute_values import clean

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.inference.answers import Answer
    from otel_rl.inference.requests import ModelRequest
    from otel_rl.telemetry.content_capture import Capture
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

_SITE = guard("inference.content")


class CapturedContent:
    """The content of one call: of its request from the start, as the program may change its list of messages later.

    An event has all messages, and a span those that no earlier call of the ``trajectory`` has recorded.
    """

    def __init__(self, wanted: Capture, request: ModelRequest, trajectory: OpenTrajectory | None) -> None:
        self._wanted = wanted
        self._input: RequestMessages | None = None
        with _SITE:
            self._input = RequestMessages(request.body, None if wanted.event else trajectory)

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
            said: dict[str, Any] = {**(self._input.values if self._input is not None else {})}
            said[attributes.GEN_AI_OUTPUT_MESSAGES] = answer.output_messages()
            if self._wanted.event:
                scope.event(
                    events.GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS,
                    attributes={**request.labels, **request.values, **values, **said, attributes.ERROR_TYPE: kind},
                    context=context,
                )
            if self._wanted.span:
                if self._input is not None:
                    self._input.were_recorded(trace_api.get_current_span(context))
                return clean(said)
        return {}
