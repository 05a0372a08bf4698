"""The wrappers around ``botocore``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.converse_protocol import ConverseAnswer, as_messages_request
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.requests import Endpoint, ModelRequest
from otel_rl.inference.streams import follow
from otel_rl.semconv.attributes import GenAiOperationNameValues, GenAiProviderNameValues
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as StreamEnded
from otel_rl.telemetry import Scope, propagation

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_scope = Scope("bedrock")
_SERVICE = "bedrock-runtime"
_CONVERSE = Endpoint("", GenAiOperationNameValues.CHAT)
_INVOKE = Endpoint("", GenAiOperationNameValues.TEXT_COMPLETION)
_ENDPOINTS = {"Converse": _CONVERSE, "ConverseStream": _CONVERSE, "InvokeModel": _INVOKE}
#: Where a stream keeps its call.
_CALL = "_otel_rl_call"
_FAILED = 300


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``botocore.client``."""
    patches.observe(module, "BaseClient._make_request", begin=_begin, end=_end, required=True)


def patch_streams(module: ModuleType, patches: Patches) -> None:
    """Patch ``botocore.eventstream``."""
    patches.observe(module, "EventStream.close", before=_closing, required=True)


def _begin(_client: Any, operation: Any, request: Any, *_: Any) -> InferenceCall | None:
    endpoint = _ENDPOINTS.get(operation.name)
    if endpoint is None or operation.service_model.service_name != _SERVICE:
        return None
    if not _scope.enabled or ownership.suppressed():
        return None
    record_abandoned()
    server, path = servers.at(request["url"], GenAiProviderNameValues.AWS_BEDROCK)
    known = {"model": _model_at(path), "stream": operation.name == "ConverseStream"}
    asked = ModelRequest(endpoint, server, known, lambda: as_messages_request(parsed(request["body"])))
    call = InferenceCall(_scope, asked, ConverseAnswer)
    call.enter()
    # Before the request is signed.
    propagation.inject(request["headers"], request["url"])
    return call


@lru_cache(maxsize=256)
def _model_at(path: str) -> str:
    return unquote(path.rpartition("/model/")[2].rpartition("/")[0])


def _end(call: InferenceCall, result: Any, error: BaseException | None) -> None:
    call.leave()
    if error is not None:
        call.finish(error)
        return
    http, response = result
    call.attempts = 1 + response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
    stream = response.get("stream")
    if http.status_code >= _FAILED:
        call.answer.failure = str(http.status_code)
    elif stream is not None:
        stream._event_generator = follow(call, stream._event_generator)  # noqa: SLF001 - as `EventStream` iterates
        setattr(stream, _CALL, call)
        call.watch_for_garbage(stream)
        return
    else:
        call.answer.observe(response)
    call.finish()


def _closing(stream: Any) -> None:
    call = vars(stream).get(_CALL)
    if call is not None:
        call.finish(ended=StreamEnded.CLOSED)
