"""A request of the OpenAI protocol before it is sent: operation, model, parameters; never changes the body."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference.fields import fields_of, items_of
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.telemetry.attribute_values import plain, truncate
from otel_rl.telemetry.cardinality_budgets import within_budget

if TYPE_CHECKING:
    from otel_rl.inference.servers import Server


class Endpoint(NamedTuple):
    """One of the ways to ask a model: ``path`` is the end of its URL."""

    path: str
    operation: str


CHAT = Endpoint("/chat/completions", GenAiOperationNameValues.CHAT)
COMPLETIONS = Endpoint("/completions", GenAiOperationNameValues.TEXT_COMPLETION)
RESPONSES = Endpoint("/responses", GenAiOperationNameValues.CHAT)
EMBEDDINGS = Endpoint("/embeddings", GenAiOperationNameValues.EMBEDDINGS)
#: The longer of two ends that match comes first.
ENDPOINTS = (CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS)

_NUMBERS = (int, float)
_GENERATION_PARAMETERS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "max_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "max_completion_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "max_output_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, int),
    "temperature": (attributes.GEN_AI_REQUEST_TEMPERATURE, _NUMBERS),
    "top_p": (attributes.GEN_AI_REQUEST_TOP_P, _NUMBERS),
    "top_k": (attributes.GEN_AI_REQUEST_TOP_K, int),
    "frequency_penalty": (attributes.GEN_AI_REQUEST_FREQUENCY_PENALTY, _NUMBERS),
    "presence_penalty": (attributes.GEN_AI_REQUEST_PRESENCE_PENALTY, _NUMBERS),
    "seed": (attributes.GEN_AI_REQUEST_SEED, int),
}
#: Most stop sequences on a span; OpenAI takes 4.
_MAXIMUM_STOP_SEQUENCES = 16
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}


def endpoint_of(url: str) -> Endpoint | None:
    """The endpoint that a URL or path names; None where it does not call a model."""
    path = url.partition("?")[0]
    for endpoint in ENDPOINTS:
        if path.endswith(endpoint.path):
            return endpoint
    return None


class Request:
    """A model request as it is about to be sent: ``labels`` also go on its metrics, ``values`` only on its span."""

    __slots__ = ("body", "endpoint", "labels", "name", "stream", "values")

    def __init__(self, endpoint: Endpoint, server: Server, body: dict[str, Any]) -> None:
        self.endpoint = endpoint
        self.body = body
        self.stream = bool(body.get("stream"))
        self.name = operation = endpoint.operation
        self.labels: dict[str, Any] = {attributes.GEN_AI_OPERATION_NAME: operation, **server.labels}
        self.values: dict[str, Any] = {**server.values}
        model = body.get("model")
        if isinstance(model, str):
            model = _model_name(model)
            self.name = f"{operation} {model}"
            # Adapters are often named after the step that made them: many names, which only the span says all.
            label = within_budget(attributes.GEN_AI_REQUEST_MODEL, model)
            self.labels[attributes.GEN_AI_REQUEST_MODEL] = label
            if label != model:
                self.values[attributes.GEN_AI_REQUEST_MODEL] = model
        if endpoint is not EMBEDDINGS:
            self._add_generation_parameters(body)

    def _add_generation_parameters(self, body: dict[str, Any]) -> None:
        values = self.values
        for key, value in body.items():
            parameter = _GENERATION_PARAMETERS.get(key)
            if parameter is not None and isinstance(value, parameter[1]):
                values[parameter[0]] = value if type(value) is float else plain(value)
        choices = body.get("n")
        if isinstance(choices, int) and choices != 1:
            values[attributes.GEN_AI_REQUEST_CHOICE_COUNT] = plain(choices)
        if self.stream:
            values[attributes.GEN_AI_REQUEST_STREAM] = True
        stop = body.get("stop")
        if stop:
            sequences = [stop] if isinstance(stop, str) else [each for each in items_of(stop) if isinstance(each, str)]
            if sequences:
                values[attributes.GEN_AI_REQUEST_STOP_SEQUENCES] = plain(sequences[:_MAXIMUM_STOP_SEQUENCES])
        # Chat names it `response_format`, Responses `text.format`.
        output_format = body.get("response_format") or fields_of(body.get("text")).get("format")
        if output_format:
            output_type = _OUTPUT_TYPES.get(str(fields_of(output_format).get("type")))
            if output_type is not None:
                values[attributes.GEN_AI_OUTPUT_TYPE] = output_type


def _model_name(model: str) -> str:
    """The model as it may be a metric attribute: of a local path the last part, a name in a hub whole."""
    return truncate(PurePath(model).name if model.startswith(("/", "./", "../")) else model)
