"""The servers that calls go to: address, port and provider, as they are on spans and on metrics.

A server that speaks the protocol of OpenAI has the provider ``openai`` unless its address says otherwise. So one server
is one series from its first call on; the engine behind it is an attribute of the span, once an answer shows it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiProviderNameValues, RlInferenceEngineValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, propagation
from otel_rl.telemetry.cardinality_budgets import OTHER, within_budget

_HOSTS = {
    "api.openai.com": GenAiProviderNameValues.OPENAI,
    "api.anthropic.com": GenAiProviderNameValues.ANTHROPIC,
    "api.deepseek.com": GenAiProviderNameValues.DEEPSEEK,
    "api.groq.com": GenAiProviderNameValues.GROQ,
    "api.mistral.ai": GenAiProviderNameValues.MISTRAL_AI,
    "api.perplexity.ai": GenAiProviderNameValues.PERPLEXITY,
    "api.x.ai": GenAiProviderNameValues.X_AI,
    "api.cohere.com": GenAiProviderNameValues.COHERE,
    "api.cohere.ai": GenAiProviderNameValues.COHERE,
    "api.fireworks.ai": GenAiProviderNameValues.FIREWORKS_AI,
    "api.together.ai": GenAiProviderNameValues.TOGETHER_AI,
    "api.together.xyz": GenAiProviderNameValues.TOGETHER_AI,
    "openrouter.ai": GenAiProviderNameValues.OPENROUTER,
    "router.huggingface.co": GenAiProviderNameValues.HUGGING_FACE,
    "aiplatform.googleapis.com": GenAiProviderNameValues.GCP_VERTEX_AI,
    "generativelanguage.googleapis.com": GenAiProviderNameValues.GCP_GEMINI,
    **dict.fromkeys((f"dashscope{at}.aliyuncs.com" for at in ("", "-intl", "-us")), GenAiProviderNameValues.DASHSCOPE),
}
#: Ends of hosts with a region or a name of the user's before them.
_ENDS = {
    "-aiplatform.googleapis.com": GenAiProviderNameValues.GCP_VERTEX_AI,
    ".endpoints.huggingface.cloud": GenAiProviderNameValues.HUGGING_FACE,
    ".services.ai.azure.com": GenAiProviderNameValues.AZURE_AI_INFERENCE,
}
#: Azure's public cloud, and its clouds of the United States and China.
_AZURE = tuple(
    f".{service}.azure.{cloud}" for service in ("openai", "cognitiveservices") for cloud in ("com", "us", "cn")
)
#: Servers on metrics; the budget of the address keeps one place for all others.
MAXIMUM_SERVERS = attributes.CARDINALITY[attributes.SERVER_ADDRESS] - 1


class Server:
    """A server: ``labels`` go on metrics and spans, ``values`` on spans only, where they replace labels.

    ``is_private`` says that ``rl.*`` baggage may go there. ``series`` is for :mod:`otel_rl.inference.requests`: what
    the calls of one operation and model have in common.
    """

    __slots__ = ("is_private", "labels", "series", "values")

    def __init__(self, address: str, port: int, provider: str, *, within_budget: bool) -> None:
        itself = {attributes.SERVER_ADDRESS: address, attributes.SERVER_PORT: port}
        others = {attributes.SERVER_ADDRESS: OTHER}
        self.labels: dict[str, Any] = {
            attributes.GEN_AI_PROVIDER_NAME: provider,
            **(itself if within_budget else others),
        }
        self.values: dict[str, Any] = {} if within_budget else itself
        self.series: dict[tuple[str, str], Any] = {}
        self.is_private = propagation.may_have_baggage(address)


_servers: dict[tuple[str, int, str | None], Server] = {}
#: Without an address, by provider.
_unplaced: dict[str, Server] = {}


def server(address: str, port: int, provider: str | None = None) -> Server:
    """Return the server at an address; ``provider`` where the client knows it (an Azure client at any address)."""
    known = _servers.get((address, port, provider))
    if known is not None:
        return known
    ascii_address = ascii_host(address)
    if ascii_address != address:
        return server(ascii_address, port, provider)
    within_budget = len(_servers) < MAXIMUM_SERVERS
    new = Server(address, port, provider or provider_of(address), within_budget=within_budget)
    if within_budget:
        _servers[address, port, provider] = new
    else:
        drops.count(Signal.METRICS, "cardinality")
    return new


def at(url: str, provider: str) -> tuple[Server, str]:
    """Return the server at a URL, and the path there."""
    host, port, path = _place_of(url)
    return server(host, port, provider), path


@lru_cache(maxsize=256)
def _place_of(url: str) -> tuple[str, int, str]:
    address = urlsplit(url)
    return address.hostname or "", address.port or (80 if address.scheme == "http" else 443), address.path


def unplaced(provider: str) -> Server:
    """Return the servers of a provider, where nobody knows their address."""
    name = within_budget(attributes.GEN_AI_PROVIDER_NAME, provider)
    unplaced_server = _unplaced.get(name)
    if unplaced_server is None:
        unplaced_server = Server("", 0, name, within_budget=True)
        unplaced_server.labels = {attributes.GEN_AI_PROVIDER_NAME: name}
        _unplaced[name] = unplaced_server
    return unplaced_server


def ascii_host(host: str) -> str:
    """Return a host as it is on the wire: some clients give it in the letters of its language."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def provider_of(address: str, otherwise: str = GenAiProviderNameValues.OPENAI) -> str:
    """Return the provider behind a host name; ``otherwise`` if the name does not show it."""
    if address.endswith(_AZURE):
        return GenAiProviderNameValues.AZURE_AI_OPENAI
    if address.startswith("bedrock-") and ".amazonaws." in address:
        return GenAiProviderNameValues.AWS_BEDROCK
    by_end = (provider for end, provider in _ENDS.items() if address.endswith(end))
    return _HOSTS.get(address) or next(by_end, otherwise)


def engine_of(fingerprint: object, has_weight_version: bool) -> str | None:
    """Return the engine that unplaced_server an answer, where it shows; None when it does not."""
    if isinstance(fingerprint, str) and fingerprint.startswith("vllm-"):
        return RlInferenceEngineValues.VLLM
    # Of the servers known, SGLang alone labels its answers with the version of its weights.
    return RlInferenceEngineValues.SGLANG if has_weight_version else None


def forget() -> None:
    """Forget every server seen."""
    _servers.clear()
    _unplaced.clear()
