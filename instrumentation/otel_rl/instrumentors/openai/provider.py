"""Derives ``gen_ai.provider.name`` from the address; facts in the server's response take precedence."""

from __future__ import annotations

from otel_rl.semconv.attributes import GenAiProviderNameValues

_DOMAINS = (
    ("api.openai.com", GenAiProviderNameValues.OPENAI),
    (".openai.azure.com", GenAiProviderNameValues.AZURE_AI_OPENAI),
    (".cognitiveservices.azure.com", GenAiProviderNameValues.AZURE_AI_OPENAI),
    ("api.deepseek.com", GenAiProviderNameValues.DEEPSEEK),
    ("api.mistral.ai", GenAiProviderNameValues.MISTRAL_AI),
)
#: Addresses remembered, so that a span has its provider from its start at the second call.
_MAXIMUM_REMEMBERED = 1024
_remembered: dict[tuple[str, int], str] = {}


def of_address(host: str, port: int) -> str:
    """The provider behind an address, as far as is known before its answer."""
    known = _remembered.get((host, port))
    if known is not None:
        return known
    for domain, provider in _DOMAINS:
        if host.endswith(domain):
            return provider
    # It speaks the protocol and does not say what it is.
    return GenAiProviderNameValues.OTHER


def of_response(fingerprint: object, has_weight_version: bool) -> str | None:
    """The engine that made the answer, where it shows; None when it does not."""
    if isinstance(fingerprint, str) and fingerprint.startswith("vllm-"):
        return GenAiProviderNameValues.VLLM
    # Of the servers known, SGLang alone labels its answers with the version of its weights.
    return GenAiProviderNameValues.SGLANG if has_weight_version else None


def remember(host: str, port: int, provider: str) -> None:
    """Keep what an answer showed about its server."""
    if len(_remembered) < _MAXIMUM_REMEMBERED:
        _remembered[host, port] = provider


def forget() -> None:
    """Forget what answers showed."""
    _remembered.clear()
