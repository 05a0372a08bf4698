"""The wrappers around ``_base_client`` of clients that Stainless generates: ``openai``, ``anthropic``."""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.core import own_cpu
from otel_rl.inference import ownership
from otel_rl.inference.calls import InferenceCall, current
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.requests import endpoint_of
from otel_rl.instrumentors import stainless_answers as answers
from otel_rl.instrumentors.observing import Hooks, Switch, wrap
from otel_rl.instrumentors.stainless_requests import describe
from otel_rl.telemetry import Scope, guard, propagation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.inference.answers import Answer
    from otel_rl.instrumentors.patching import Patches

#: Classes in which ``_base_client`` returns an answer that is read later.
_STREAMS = ("Stream", "AsyncStream")
_RAW_RESPONSES = ("LegacyAPIResponse", "APIResponse", "AsyncAPIResponse")
#: Later versions of ``anthropic`` have it no more.
_LEGACY = "LegacyAPIResponse"


class StainlessClient:
    """The hooks of one client.

    Args:
        library: its name.
        provider_of: the provider, from an instance of its class; None if its address shows it.
        form: of its answers.
    """

    def __init__(
        self,
        library: str,
        provider_of: Callable[[Any], str | None],
        form: Callable[[bool], Answer],
    ) -> None:
        self._scope, self._provider_of, self._form = Scope(library), provider_of, form
        self._headers_site = guard(f"{library}.headers")
        begin, end = own_cpu.timed(f"{library}.begin", self._begin), own_cpu.timed(f"{library}.answered", answers.sent)
        self._sending = Hooks(f"{library}.request", begin=begin, end=end)

    def patch(self, module: ModuleType, patches: Patches, request: str = "request") -> None:
        """Patch ``_base_client``; ``request`` is the method of its clients that sends one with its retries."""
        known = [[vars(module)[name] for name in names if name in vars(module)] for names in (_STREAMS, _RAW_RESPONSES)]
        answers.add_types(*known)
        for name in (*_STREAMS, *_RAW_RESPONSES[1:]):
            answers.observe_close(module, name, patches)
        for name in _RAW_RESPONSES:
            end = answers.parsed
            patches.observe(module, f"{name}.parse", begin=answers.parsing, end=end, required=name != _LEGACY)
        patches.replace(module, "BaseClient._build_headers", self._build_headers, required=True)
        for name in ("SyncAPIClient", "AsyncAPIClient"):
            hooks = self._sending._replace(is_awaited=name.startswith("Async"))
            sending = partial(wrap, hooks=hooks, switch=Switch())
            patches.replace(module, f"{name}.{request}", sending, required=True)
            _replace_below_wrappers(getattr(module, name), request, sending, patches)

    def has_owner(self, url: str) -> bool:
        """Return whether the call of a model at ``url`` belongs to another instrumentor, whose span is open."""
        endpoint = endpoint_of(url)
        return endpoint is not None and ownership.of_call(self._scope.name, endpoint, get_current()) is not None

    def _begin(self, client: Any, *args: Any, **kwargs: Any) -> InferenceCall | None:
        record_abandoned()
        if not self._scope.enabled or ownership.suppressed():
            return None
        options = kwargs["options"] if "options" in kwargs else args[1]
        request = describe(client, options, self._provider_of)
        if request is None:
            return None
        call = InferenceCall(self._scope, request, self._form)
        call.enter()
        return call

    def _build_headers(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Count retries and put the trace context on the wire of every transport; called once per attempt."""

        @functools.wraps(original)
        def build_headers(client: Any, *args: Any, **kwargs: Any) -> Any:
            headers = original(client, *args, **kwargs)
            with self._headers_site:
                call = current.get()
                if call is not None:
                    call.attempts += 1
                elif ownership.suppressed():
                    return headers
                options = kwargs["options"] if "options" in kwargs else args[0]
                if self._scope.enabled and not _has_trace_context(client, options):
                    propagation.inject(headers, _target(client, options))
            return headers

        return build_headers


def _replace_below_wrappers(base: Any, request: str, factory: Callable[..., Any], patches: Patches) -> None:
    """Get below wrappers that have been put on ``request`` of a client's class, and hold the original themselves.

    So does ``openinference.instrumentation.openai`` 0.1.66 (``OpenAIInstrumentor._instrument``).
    """
    original = getattr(vars(base)[request], "__wrapped__", None)
    for client in base.__subclasses__():
        wrapper = vars(client).get(request)
        if wrapper is not None and getattr(wrapper, "__wrapped__", None) is original:
            ours = wrapper.__wrapped__ = factory(original)
            patches.on_restore(partial(_put_back, wrapper, ours, original))


def _put_back(wrapper: Any, ours: Any, original: Any) -> None:
    if wrapper.__wrapped__ is ours:
        wrapper.__wrapped__ = original


def _target(client: Any, options: Any) -> Any:
    """Return the URL of the request: an absolute URL in the options wins over the client's."""
    return options.url if "://" in options.url else client._base_url  # noqa: SLF001 - the property builds a new object


def _has_trace_context(client: Any, options: Any) -> bool:
    """Return whether the program itself sends a ``traceparent``. A header lookup would trigger encoding detection."""
    for given in (options.headers, client._custom_headers):  # noqa: SLF001
        if given and any(name.lower() == "traceparent" for name in given):
            return True
    return False
