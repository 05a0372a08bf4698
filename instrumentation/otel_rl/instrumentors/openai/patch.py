"""The wrappers around ``openai._base_client``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.inference import ownership
from otel_rl.inference.calls import InferenceCall, current
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.instrumentors.openai import answers
from otel_rl.instrumentors.openai.request import describe
from otel_rl.telemetry import Scope, guard, propagation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("openai")
_BEGIN, _HEADERS = guard("openai.begin"), guard("openai.headers")
#: Classes in which ``openai._base_client`` returns an answer that is read later.
_STREAMS = ("Stream", "AsyncStream")
_RAW_RESPONSES = ("LegacyAPIResponse", "APIResponse", "AsyncAPIResponse")
#: Their methods that end a call, and the factories of our replacements.
_METHODS = (
    ("Stream", "close", answers.closes),
    ("AsyncStream", "close", answers.closes_async),
    ("APIResponse", "close", answers.closes),
    ("AsyncAPIResponse", "close", answers.closes_async),
    ("LegacyAPIResponse", "parse", answers.parses),
    ("APIResponse", "parse", answers.parses),
    ("AsyncAPIResponse", "parse", answers.parses_async),
)


def patch_base_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``openai._base_client``; runs once, after its import."""
    answers.use_types(
        tuple(getattr(module, name) for name in _STREAMS), tuple(getattr(module, name) for name in _RAW_RESPONSES)
    )
    for class_name, method, factory in _METHODS:
        patches.replace(module, f"{class_name}.{method}", factory, required=True)
    patches.replace(module, "BaseClient._build_headers", _build_headers, required=True)
    for name, factory in (("SyncAPIClient", _request), ("AsyncAPIClient", _request_async)):
        patches.replace(module, f"{name}.request", factory, required=True)
        _replace_below_wrappers(getattr(module, name), factory, patches)


def _replace_below_wrappers(base: Any, factory: Callable[..., Any], patches: Patches) -> None:
    """Get below wrappers that have been put on ``request`` of a client's class, and hold the original themselves.

    So does ``openinference.instrumentation.openai`` 0.1.66 (``OpenAIInstrumentor._instrument``).
    """
    original = getattr(vars(base)["request"], "__wrapped__", None)
    for client in base.__subclasses__():
        wrapper = vars(client).get("request")
        if wrapper is not None and getattr(wrapper, "__wrapped__", None) is original:
            ours = wrapper.__wrapped__ = factory(original)
            patches.on_restore(functools.partial(_put_back, wrapper, ours, original))


def _put_back(wrapper: Any, ours: Any, original: Any) -> None:
    if wrapper.__wrapped__ is ours:
        wrapper.__wrapped__ = original


def patch_chat_helper(module: ModuleType, patches: Patches) -> None:
    """Patch what ``chat.completions.stream()`` gives: it closes past the stream inside it."""
    patches.replace(module, "ChatCompletionStream.close", answers.closes, required=True)
    patches.replace(module, "AsyncChatCompletionStream.close", answers.closes_async, required=True)


def patch_responses_helper(module: ModuleType, patches: Patches) -> None:
    """Patch what ``responses.stream()`` gives, for the same reason."""
    patches.replace(module, "ResponseStream.close", answers.closes, required=True)
    patches.replace(module, "AsyncResponseStream.close", answers.closes_async, required=True)


def _request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _timed_begin(self, args, kwargs)
        if call is None:
            return original(self, *args, **kwargs)
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            call.finish(error)
            raise
        finally:
            call.leave()
        _timed_answered(call, answer)
        return answer

    return request


def _request_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _timed_begin(self, args, kwargs)
        if call is None:
            return await original(self, *args, **kwargs)
        try:
            answer = await original(self, *args, **kwargs)
        except BaseException as error:
            call.finish(error)
            raise
        finally:
            call.leave()
        _timed_answered(call, answer)
        return answer

    return request


def _begin(client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> InferenceCall | None:
    call = None
    with _BEGIN:
        record_abandoned()
        if not scope.enabled or ownership.suppressed():
            return None
        options = kwargs["options"] if "options" in kwargs else args[1]
        request = describe(client, options)
        if request is not None:
            call = InferenceCall(scope, request)
            call.enter()
    return call


_timed_begin = own_cpu.timed("openai.begin", _begin)
_timed_answered = own_cpu.timed("openai.answered", answers.answered)


def _build_headers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Count retries and put the trace context on the wire of every transport; called once per attempt."""

    @functools.wraps(original)
    def build_headers(self: Any, *args: Any, **kwargs: Any) -> Any:
        headers = original(self, *args, **kwargs)
        with _HEADERS:
            call = current.get()
            if call is not None:
                call.attempts += 1
            elif ownership.suppressed():
                return headers
            options = kwargs["options"] if "options" in kwargs else args[0]
            if scope.enabled and not _has_trace_context(self, options):
                propagation.inject(headers, _target(self, options))
        return headers

    return build_headers


def _target(client: Any, options: Any) -> Any:
    """Return the URL of the request: an absolute URL in the options wins over the client's."""
    return options.url if "://" in options.url else client._base_url  # noqa: SLF001 - the property builds a new object


def _has_trace_context(client: Any, options: Any) -> bool:
    """Return whether the program itself sends a ``traceparent``. A header lookup would trigger encoding detection."""
    for given in (options.headers, client._custom_headers):  # noqa: SLF001
        if given and any(name.lower() == "traceparent" for name in given):
            return True
    return False
