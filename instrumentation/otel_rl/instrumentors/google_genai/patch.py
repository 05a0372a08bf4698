"""The wrappers around ``google.genai``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall, current
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.gemini_protocol import GeminiAnswer, as_messages_request
from otel_rl.inference.requests import EMBEDDINGS, Endpoint, ModelRequest
from otel_rl.inference.sent_calls import sends_async
from otel_rl.inference.streams import follow, followed
from otel_rl.semconv.attributes import GenAiOperationNameValues, GenAiProviderNameValues
from otel_rl.telemetry import Scope, guard, propagation
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_scope = Scope("google_genai")
_BEGIN = guard("google_genai.begin")
_GENERATE = Endpoint("", GenAiOperationNameValues.GENERATE_CONTENT)
#: Method of the API, at the end of the path -> endpoint.
_ENDPOINTS = {
    "generateContent": _GENERATE,
    "streamGenerateContent": _GENERATE,
    "embedContent": EMBEDDINGS,
    "batchEmbedContents": EMBEDDINGS,
}
_END = object()


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``google.genai._api_client``: all requests of a client, whatever sends them, go through these."""
    client = "BaseApiClient"
    for name in ("request", "async_request"):
        patches.observe(module, f"{client}.{name}", begin=_begin, end=_end, required=True)
    patches.replace(module, f"{client}.request_streamed", _streams, required=True)
    streams = functools.partial(sends_async, begin=_guarded_begin, take=followed)
    patches.replace(module, f"{client}.async_request_streamed", streams, required=True)
    for name in ("_request_once", "_async_request_once"):
        patches.observe(module, f"{client}.{name}", before=_sending)


def patch_functions(module: ModuleType, patches: Patches) -> None:
    """Patch ``google.genai._extra_utils``, which calls functions of the program for the model."""
    for name in ("invoke_function_from_dict_args", "invoke_function_from_dict_args_async"):
        patches.observe(module, name, begin=_begin_tool, end=ToolCall.ended)


def _begin(client: Any, _http: str, path: str, request: Any, *_: Any, **__: Any) -> InferenceCall | None:
    model, method = path.partition("?")[0].rpartition(":")[::2]
    endpoint = _ENDPOINTS.get(method)
    if endpoint is None or not _scope.enabled or ownership.suppressed():
        return None
    record_abandoned()
    known = {"model": model.rpartition("/")[2], "stream": method.startswith("stream")}
    asked = ModelRequest(endpoint, _server(client), known, lambda: as_messages_request(request))
    call = InferenceCall(_scope, asked, GeminiAnswer)
    call.enter()
    return call


def _server(client: Any) -> servers.Server:
    providers = GenAiProviderNameValues
    provider = providers.GCP_VERTEX_AI if client.vertexai else providers.GCP_GEMINI
    return servers.at(str(client._http_options.base_url), provider)[0]  # noqa: SLF001 - there is no public name


def _end(call: InferenceCall, response: Any, error: BaseException | None) -> None:
    call.leave()
    if error is None:
        call.answer.observe_body(response.body or b"")
    call.finish(error)


def _sending(_client: Any, request: Any, *_: Any, **__: Any) -> None:
    """Count an attempt and put the trace context on the wire."""
    call = current.get()
    if call is not None and call.is_current and isinstance(request.headers, dict):
        call.attempts += 1
        propagation.inject(request.headers, str(request.url))


def _guarded_begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> InferenceCall | None:
    with _BEGIN:
        return _begin(*args, **kwargs)
    return None


def _streams(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request_streamed(*args: Any, **kwargs: Any) -> Any:
        call = _guarded_begin(args, kwargs)
        chunks = original(*args, **kwargs)
        yield from (chunks if call is None else follow(call, _sent(call, chunks)))

    return request_streamed


def _sent(call: InferenceCall, chunks: Iterator[Any]) -> Iterator[Any]:
    """Send the request inside of ``call``, which is current, and leave that."""
    try:
        first = next(chunks, _END)
    finally:
        call.leave()
    if first is not _END:
        yield first
        yield from chunks


def _begin_tool(arguments: Any, function: Any) -> ToolCall:
    return ToolCall(_scope, getattr(function, "__name__", type(function).__name__), arguments=arguments).start()
