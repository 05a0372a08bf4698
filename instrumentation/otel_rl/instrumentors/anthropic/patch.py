"""The wrappers around ``anthropic._base_client``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import baggage

from otel_rl.agents.runs import AgentRun, agent
from otel_rl.inference.calls import current
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.instrumentors import stainless_answers as answers
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import bypassing
from otel_rl.instrumentors.stainless_clients import StainlessClient
from otel_rl.semconv.attributes import GenAiProviderNameValues
from otel_rl.telemetry import Scope, propagation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


_scope = Scope("anthropic")
#: As the client names the span of a run.
_TOOL_RUNNER = "anthropic.messages.tool_runner"


def _provider_of(client: Any) -> str:
    """Return the provider as the client names it; its clients of Bedrock and Vertex have names of their own."""
    return getattr(client, "_gen_ai_provider_name", GenAiProviderNameValues.ANTHROPIC)


_client = StainlessClient("anthropic", _provider_of, MessagesAnswer)


def patch_base_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``anthropic._base_client``, since 1.14 inside of the client's own span."""
    has_spans = hasattr(module, "finish_api_call_span")
    _client.patch(module, patches, "_request" if has_spans else "request")
    if has_spans:
        patches.observe(module, "finish_api_call_span", before=_finishing, required=True)
        patches.observe(module, "inject_trace_headers", after=_injected)
        _withhold_span(module, patches)


def _is_owned(_tracer: Any, _url: Any, options: Any, *_: Any, **__: Any) -> bool:
    return _client.has_owner(options.url)


#: The call of an agent library that has a span for it already gets no second one; ours adds to the first.
_withhold_span = bypassing("start_api_call_span", when=_is_owned, result=lambda *_, **__: None)


def _finishing(_client: Any, span: Any, result: Any) -> None:
    """Take an answer that the client has: its span ends next. Streams and raw responses are followed later."""
    call = current.get()
    if call is not None and call.span is span and result.error is None:
        answers.complete(call, result.data)


def _injected(_: None, _span: Any, headers: Any) -> None:
    """Take out what may not leave: the client sends all baggage to any host."""
    if baggage.get_all():
        propagation.withhold(headers, f"//{headers['host']}")


def _running(arguments: Mapping[str, Any]) -> AgentRun:
    """Begin a run of a tool runner; the client has a span for it since 2.12, unless that is switched off."""
    runner = arguments["self"]
    has_span = hasattr(runner, "_start_tool_runner_span") and runner._client._tracer is not None  # noqa: SLF001
    return AgentRun(_scope, agent(_TOOL_RUNNER), has_span=not has_span)


#: Patches ``anthropic.lib.tools._beta_runner``.
patch_tool_runners = following(
    "BaseSyncToolRunner.__run__", "BaseAsyncToolRunner.__run__", begin=_running, required=False
)
