"""What a request says before it is sent: operation, model, parameters, address. The body is read, never changed."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from otel_rl.instrumentors.openai import content, provider
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.telemetry.content import capture_content

#: Ends of the path -> operation; the longer of two matching ends comes first.
OPERATIONS = (
    ("/chat/completions", GenAiOperationNameValues.CHAT),
    ("/completions", GenAiOperationNameValues.TEXT_COMPLETION),
    ("/responses", GenAiOperationNameValues.CHAT),
    ("/embeddings", GenAiOperationNameValues.EMBEDDINGS),
)
_GENERATION_PARAMETERS = (
    ("max_tokens", attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    ("max_completion_tokens", attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    ("max_output_tokens", attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    ("temperature", attributes.GEN_AI_REQUEST_TEMPERATURE, (int, float)),
    ("top_p", attributes.GEN_AI_REQUEST_TOP_P, (int, float)),
    ("seed", attributes.GEN_AI_REQUEST_SEED, int),
)
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}


class Request:
    """A model request as it is about to be sent."""

    __slots__ = ("attributes", "definition", "host", "metric_attributes", "name", "operation", "port", "stream")

    def __init__(self, operation: str, client: Any, body: dict[str, Any]) -> None:
        self.operation = operation
        self.definition = (
            spans.GEN_AI_EMBEDDINGS if operation == GenAiOperationNameValues.EMBEDDINGS else spans.GEN_AI_INFERENCE
        )
        model = _model_name(body.get("model"))
        self.name = f"{operation} {model}" if model else operation
        self.stream = bool(body.get("stream"))
        address = client.base_url
        self.host = address.host
        self.port = address.port or (80 if address.scheme == "http" else 443)
        self.metric_attributes: dict[str, Any] = {
            attributes.GEN_AI_OPERATION_NAME: operation,
            attributes.GEN_AI_PROVIDER_NAME: provider.of_address(self.host, self.port),
        }
        if model:
            self.metric_attributes[attributes.GEN_AI_REQUEST_MODEL] = model
        self.attributes = dict(self.metric_attributes)
        self.attributes[attributes.SERVER_ADDRESS] = self.host
        self.attributes[attributes.SERVER_PORT] = self.port
        if self.definition is spans.GEN_AI_INFERENCE:
            self._add_generation_parameters(body)

    def _add_generation_parameters(self, body: dict[str, Any]) -> None:
        values = self.attributes
        for key, name, kind in _GENERATION_PARAMETERS:
            value = body.get(key)
            if value is not None and isinstance(value, kind):
                values[name] = value
        choices = body.get("n")
        if isinstance(choices, int) and choices != 1:
            values[attributes.GEN_AI_REQUEST_CHOICE_COUNT] = choices
        if self.stream:
            values[attributes.GEN_AI_REQUEST_STREAM] = True
        response_format = body.get("response_format")
        if isinstance(response_format, dict):
            values[attributes.GEN_AI_OUTPUT_TYPE] = _OUTPUT_TYPES.get(str(response_format.get("type")))
        if capture_content():
            values.update(content.of_request(body))


def describe(client: Any, options: Any) -> Request | None:
    """What is known of a request of ``openai`` before it is sent; None where it does not call a model."""
    if options.method.lower() != "post":
        return None
    path = options.url.partition("?")[0]
    for end, operation in OPERATIONS:
        if path.endswith(end):
            body = options.json_data
            return Request(operation, client, body if isinstance(body, dict) else {})
    return None


def _model_name(model: object) -> str:
    """The model as it may be a metric attribute: of a local path the last part, a name in a hub whole."""
    if not isinstance(model, str):
        return ""
    return PurePath(model).name if model.startswith(("/", "./", "../")) else model
