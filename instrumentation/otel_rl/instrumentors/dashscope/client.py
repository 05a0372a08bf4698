"""Model calls of the client: what its classes for generation, conversation and embeddings end in."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.fields import fields_of, items_of
from otel_rl.inference.requests import CHAT, EMBEDDINGS, ModelRequest
from otel_rl.inference.sent_calls import sends, sends_async
from otel_rl.inference.streams import followed
from otel_rl.instrumentors.dashscope.answers import DashScopeAnswer, as_chat_message
from otel_rl.semconv.attributes import GenAiProviderNameValues
from otel_rl.telemetry import Scope, guard, propagation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("dashscope")
_BEGIN, _ANSWERED = guard("dashscope.begin"), guard("dashscope.answered")
#: Task of the client -> what is asked. Others make images or speech.
_ENDPOINTS = {"text-generation": CHAT, "multimodal-generation": CHAT, "text-embedding": EMBEDDINGS}
#: First parameters of the hooked method, and what asks a model.
_PARAMETERS, _QUESTIONS = ("model", "input", "task_group", "task"), {"messages", "prompt"}


def patch_base_api(module: ModuleType, patches: Patches) -> None:
    """Patch ``dashscope.client.base_api``; runs once, after its import."""
    for name, form in (("BaseApi.call", sends), ("BaseAioApi.call", sends_async)):
        patches.replace(module, name, functools.partial(_follows, form), required=True)


def _follows(form: Callable[..., Any], original: Any) -> Any:
    return classmethod(form(original.__func__, _timed_begin, _timed_answered))


def _begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> InferenceCall | None:
    """Begin a call that asks a model, and put its trace context into the arguments."""
    call = None
    with _BEGIN:
        record_abandoned()
        request = _request(args, kwargs) if scope.enabled and not ownership.suppressed() else None
        if request is not None:
            call = InferenceCall(scope, request, functools.partial(DashScopeAnswer, kwargs.get("incremental_output")))
            call.enter()
            _add_trace_context(kwargs)
    return call


def _request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelRequest | None:
    body: dict[str, Any] = {**dict(zip(_PARAMETERS, args[1:], strict=False)), **kwargs}
    endpoint, asked = _ENDPOINTS.get(str(body.get("task"))), fields_of(body.get("input"))
    if endpoint is None or (endpoint is CHAT and not _QUESTIONS & asked.keys()):
        return None
    if endpoint is CHAT:
        messages = items_of(asked.get("messages")) or [{"role": "user", "content": asked.get("prompt")}]
        body["messages"] = [as_chat_message(message) for message in messages]
    server, _ = servers.at(_address(kwargs), GenAiProviderNameValues.DASHSCOPE)
    return ModelRequest(endpoint, server, body)


def _address(parameters: dict[str, Any]) -> str:
    address = parameters.get("base_address") or sys.modules["dashscope"].base_http_api_url
    # In some regions; an id is no place.
    return str(address).replace("{workspace_id}.", "")


def _add_trace_context(kwargs: dict[str, Any]) -> None:
    """Add it to the headers, unless the program sends its own."""
    headers = dict(kwargs.get("headers") or {})
    if not any(str(name).lower() == "traceparent" for name in headers):
        propagation.inject(headers, _address(kwargs))
        kwargs["headers"] = headers


def _answered(call: InferenceCall, answer: Any) -> Any:
    """Read an answer, or follow a stream; return what the program gets."""
    with _ANSWERED:
        if isinstance(answer, Iterator | AsyncIterator):
            return followed(call, answer)
        call.answer.observe(answer)
    call.finish()
    return answer


_timed_begin = own_cpu.timed("dashscope.begin", _begin)
_timed_answered = own_cpu.timed("dashscope.answered", _answered)
