"""A request before it is sent, in the protocol of OpenAI or Anthropic: its model and parameters. Nothing changes it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference.fields import fields_of, items_of
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiOperationNameValues, OpenaiApiTypeValues
from otel_rl.telemetry.attribute_values import plain, text
from otel_rl.telemetry.cardinality_budgets import within_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.inference.servers import Server


class Endpoint(NamedTuple):
    """One of the ways to ask a model: ``path`` is the end of its URL."""

    path: str
    operation: str


CHAT = Endpoint("/chat/completions", GenAiOperationNameValues.CHAT)
COMPLETIONS = Endpoint("/completions", GenAiOperationNameValues.TEXT_COMPLETION)
#: Anthropic's, which vLLM, SGLang and LiteLLM serve, too.
MESSAGES = Endpoint("/v1/messages", GenAiOperationNameValues.CHAT)
RESPONSES = Endpoint("/responses", GenAiOperationNameValues.CHAT)
EMBEDDINGS = Endpoint("/embeddings", GenAiOperationNameValues.EMBEDDINGS)
#: The longer of two ends that match comes first.
ENDPOINTS = (CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS, MESSAGES)

#: Most stop sequences on a span; OpenAI takes 4.
_MAXIMUM_STOP_SEQUENCES = 16
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}


@lru_cache(maxsize=256)
def endpoint_of(url: str) -> Endpoint | None:
    """Return the endpoint that a URL or path names; None where it does not call a model."""
    path = url.partition("?")[0]
    for endpoint in ENDPOINTS:
        if path.endswith(endpoint.path):
            return endpoint
    return None


class CallSeries(NamedTuple):
    """What the calls of one operation and model to one server have in common.

    Attributes:
        name: of their spans.
        labels: attributes of their spans and metrics; shared, so never to be changed.
        values: attributes of their spans only, where they replace labels; likewise.
    """

    name: str
    labels: dict[str, Any]
    values: dict[str, Any]


class ModelRequest:
    """A model request as it is about to be sent: ``labels`` also go on its metrics, ``values`` only on its span.

    If the ``body`` takes work to read, ``later`` returns it, and ``body`` has the model and whether to stream.
    """

    __slots__ = ("_later", "body", "endpoint", "is_private", "labels", "name", "stream", "values")

    def __init__(
        self,
        endpoint: Endpoint,
        server: Server,
        body: dict[str, Any],
        later: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.body = body
        self._later = later
        self.is_private = server.is_private
        self.stream = bool(body.get("stream"))
        model = body.get("model")
        if not isinstance(model, str):
            model = ""
        series: CallSeries = server.series.get((endpoint.operation, model)) or _series(
            server, endpoint.operation, model
        )
        self.name, self.labels, values = series
        self.values: dict[str, Any] = {**values}
        if endpoint is EMBEDDINGS:
            _add_embedding_parameters(self.values, body)
            return
        if endpoint is RESPONSES:
            self.values[attributes.OPENAI_API_TYPE] = OpenaiApiTypeValues.RESPONSES
        add_generation_parameters(self.values, body)

    def read(self) -> dict[str, Any]:
        """Return the body as a whole, whose parameters are in ``values`` from now on."""
        later, self._later = self._later, None
        if later is not None:
            self.body = later()
            add_generation_parameters(self.values, self.body)
        return self.body

    def forget(self) -> None:
        """Let go of the body, which is the program's."""
        self.body, self._later = {}, None

    @property
    def engine(self) -> tuple[str, int | None, str]:
        """Address and port of the server, and the model."""
        values = {**self.labels, **self.values}
        server = str(values.get(attributes.SERVER_ADDRESS) or ""), values.get(attributes.SERVER_PORT)
        return *server, str(values.get(attributes.GEN_AI_REQUEST_MODEL) or "")


def number_of_prompts(body: Mapping[str, Any]) -> int:
    """Prompts of a text completion, each of which is a request to the engine; a list of numbers is one prompt."""
    prompts = items_of(body.get("prompt"))
    return len(prompts) if prompts and isinstance(prompts[0], str | list) else 1


def add_generation_parameters(values: dict[str, Any], body: Mapping[str, Any]) -> None:
    """Add the attributes of the parameters in ``body``, named as the protocol names them; they are clean."""
    for key, given in body.items():
        parameter = _GENERATION_PARAMETERS.get(key)
        if parameter is not None:
            attribute, value_of = parameter
            value = value_of(given)
            if value is not None:
                values[attribute] = value


def _add_embedding_parameters(values: dict[str, Any], body: Mapping[str, Any]) -> None:
    dimensions, form = _integer(body.get("dimensions")), body.get("encoding_format")
    if dimensions is not None:
        values[attributes.GEN_AI_EMBEDDINGS_DIMENSION_COUNT] = dimensions
    if isinstance(form, str):
        values[attributes.GEN_AI_REQUEST_ENCODING_FORMATS] = plain([form])


def _series(server: Server, operation: str, model: str) -> CallSeries:
    """Make a series, and keep it where the budget of models bounds how many there are."""
    if not model:
        labels = {attributes.GEN_AI_OPERATION_NAME: operation, **server.labels}
        series = server.series[operation, model] = CallSeries(operation, labels, server.values)
        return series
    name = model_name(model)
    # Adapters are often named after the step that made them: many names, which only the span says all.
    label = within_budget(attributes.GEN_AI_REQUEST_MODEL, name)
    if label == model:
        common = server.series.get((operation, "")) or _series(server, operation, "")
        labels = {**common.labels, attributes.GEN_AI_REQUEST_MODEL: label}
        series = server.series[operation, model] = CallSeries(f"{operation} {name}", labels, server.values)
        return series
    common = server.series.get((operation, label)) or _series(server, operation, label)
    values = server.values if label == name else {**server.values, attributes.GEN_AI_REQUEST_MODEL: name}
    return CallSeries(f"{operation} {name}", common.labels, values)


def model_name(model: str) -> str:
    """Return the model as it may be a metric attribute: of a local path the last part, a name in a hub whole."""
    return text(PurePath(model).name if model.startswith(("/", "./", "../")) else model)


# -- parameters ----------------------------------------------------------------------------------------------------


def _integer(value: Any) -> Any:
    return plain(value) if isinstance(value, int) else None


def _number(value: Any) -> float | None:
    if type(value) is float:
        return value
    # Programs write 0 and 1 as integers. One of more than 64 bits is text now.
    known = plain(value)
    return float(known) if isinstance(known, int | float) else None


def _choices(value: Any) -> Any:
    return plain(value) if isinstance(value, int) and value != 1 else None


def _stop_sequences(value: Any) -> Any:
    sequences = [value] if isinstance(value, str) else [each for each in items_of(value) if isinstance(each, str)]
    return plain(sequences[:_MAXIMUM_STOP_SEQUENCES]) if value and sequences else None


def _output_type(value: Any) -> str | None:
    return _OUTPUT_TYPES.get(str(fields_of(value).get("type"))) if value else None


#: Field of the body -> attribute, and its value as it may leave the process; None where it is no value of this kind.
_GENERATION_PARAMETERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "max_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, _integer),
    "max_completion_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, _integer),
    "max_output_tokens": (attributes.GEN_AI_REQUEST_MAX_TOKENS, _integer),
    "temperature": (attributes.GEN_AI_REQUEST_TEMPERATURE, _number),
    "top_p": (attributes.GEN_AI_REQUEST_TOP_P, _number),
    "top_k": (attributes.GEN_AI_REQUEST_TOP_K, _integer),
    "frequency_penalty": (attributes.GEN_AI_REQUEST_FREQUENCY_PENALTY, _number),
    "presence_penalty": (attributes.GEN_AI_REQUEST_PRESENCE_PENALTY, _number),
    "seed": (attributes.GEN_AI_REQUEST_SEED, _integer),
    "n": (attributes.GEN_AI_REQUEST_CHOICE_COUNT, _choices),
    "stream": (attributes.GEN_AI_REQUEST_STREAM, lambda value: True if value else None),
    "stop": (attributes.GEN_AI_REQUEST_STOP_SEQUENCES, _stop_sequences),
    "stop_sequences": (attributes.GEN_AI_REQUEST_STOP_SEQUENCES, _stop_sequences),
    # Chat names it so, Responses `text.format`, Messages `output_config.format`.
    "response_format": (attributes.GEN_AI_OUTPUT_TYPE, _output_type),
    "text": (attributes.GEN_AI_OUTPUT_TYPE, lambda value: _output_type(fields_of(value).get("format"))),
    "output_config": (attributes.GEN_AI_OUTPUT_TYPE, lambda value: _output_type(fields_of(value).get("format"))),
}
