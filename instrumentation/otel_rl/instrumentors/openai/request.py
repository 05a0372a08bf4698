"""Reads operation, model, parameters and address from a request before it is sent; never changes the body."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from otel_rl.instrumentors.openai import content, provider
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.telemetry.attribute_values import clean, truncate
from otel_rl.telemetry.cardinality_budgets import within_budget
from otel_rl.telemetry.content_capture import capture_content

#: Ends of the path -> operation; the longer of two matching ends comes first.
OPERATIONS = (
    ("/chat/completions", GenAiOperationNameValues.CHAT),
    ("/completions", GenAiOperationNameValues.TEXT_COMPLETION),
    ("/responses", GenAiOperationNameValues.CHAT),
    ("/embeddings", GenAiOperationNameValues.EMBEDDINGS),
)
_GENERATION_PARAMETERS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "max_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "max_completion_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "max_output_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "temperature": (attributes.GEN_AI_REQUEST_TEMPERATURE, (int, float)),
    "top_p": (attributes.GEN_AI_REQUEST_TOP_P, (int, float)),
    "seed": (attributes.GEN_AI_REQUEST_SEED, int),
}
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}


class Request:
    """A model request as it is about to be sent: ``labels`` also go on its metrics, ``values`` only on its span."""

    __slots__ = ("captures_content", "host", "labels", "name", "port", "stream", "values")

    def __init__(self, operation: str, client: Any, url: str, body: dict[str, Any]) -> None:
        # The property of the same name builds a new object at every access in some versions.
        address = client._base_url  # noqa: SLF001
        if "://" in url:
            # An absolute URL replaces the client's own.
            address = type(address)(url)
        self.host: str = address.host
        self.port: int = address.port or (80 if address.scheme == "http" else 443)
        self.stream = bool(body.get("stream"))
        self.captures_content = capture_content()
        self.labels = {
            attributes.GEN_AI_OPERATION_NAME: operation,
            attributes.GEN_AI_PROVIDER_NAME: provider.of_address(self.host, self.port),
        }
        self.name = operation
        self.values: dict[str, Any] = {attributes.SERVER_ADDRESS: self.host, attributes.SERVER_PORT: self.port}
        model = body.get("model")
        if isinstance(model, str):
            model = _model_name(model)
            self.name = f"{operation} {model}"
            # Adapters are often named after the step that made them: many names, which only the span says all.
            label = within_budget(attributes.GEN_AI_REQUEST_MODEL, model)
            self.labels[attributes.GEN_AI_REQUEST_MODEL] = label
            if label != model:
                self.values[attributes.GEN_AI_REQUEST_MODEL] = model
        if operation != GenAiOperationNameValues.EMBEDDINGS:
            self._add_generation_parameters(body)

    def _add_generation_parameters(self, body: dict[str, Any]) -> None:
        values = self.values
        for key, value in body.items():
            parameter = _GENERATION_PARAMETERS.get(key)
            if parameter is not None and isinstance(value, parameter[1]):
                values[parameter[0]] = value
        choices = body.get("n")
        if isinstance(choices, int) and choices != 1:
            values[attributes.GEN_AI_REQUEST_CHOICE_COUNT] = choices
        if self.stream:
            values[attributes.GEN_AI_REQUEST_STREAM] = True
        response_format = body.get("response_format")
        if isinstance(response_format, dict):
            output_type = _OUTPUT_TYPES.get(str(response_format.get("type")))
            if output_type is not None:
                values[attributes.GEN_AI_OUTPUT_TYPE] = output_type
        if self.captures_content:
            values.update(clean(content.of_request(body)))


def describe(client: Any, options: Any) -> Request | None:
    """Describe a request of ``openai`` before it is sent; return None when it does not call a model."""
    if options.method.lower() != "post":
        return None
    path = options.url.partition("?")[0]
    for end, operation in OPERATIONS:
        if path.endswith(end):
            body = options.json_data
            return Request(operation, client, options.url, body if isinstance(body, dict) else {})
    return None


def _model_name(model: str) -> str:
    """The model as it may be a metric attribute: of a local path the last part, a name in a hub whole."""
    return truncate(PurePath(model).name if model.startswith(("/", "./", "../")) else model)
