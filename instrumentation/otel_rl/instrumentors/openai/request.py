"""Describes a request of the ``openai`` client: its URL, its body with what ``extra_body`` adds, its server."""

from __future__ import annotations

import sys
from typing import Any

from otel_rl.inference import servers
from otel_rl.inference.requests import ModelRequest, endpoint_of
from otel_rl.semconv.attributes import GenAiProviderNameValues


def describe(client: Any, options: Any) -> ModelRequest | None:
    """Describe a request before it is sent; return None when it does not call a model."""
    if options.method.lower() != "post":
        return None
    endpoint = endpoint_of(options.url)
    if endpoint is None:
        return None
    return ModelRequest(endpoint, _server(client, options.url), _body(options))


def _body(options: Any) -> dict[str, Any]:
    """Return the body as the client will send it. Versions before 1.30 or so have no separate ``extra_json``."""
    body = options.json_data
    added = getattr(options, "extra_json", None)
    if not isinstance(body, dict):
        body = {}
    return {**body, **added} if isinstance(added, dict) else body


def _server(client: Any, url: str) -> servers.Server:
    # The property of the same name builds a new object at every access in some versions.
    address = client._base_url  # noqa: SLF001
    if "://" in url:
        # An absolute URL replaces the client's own.
        address = type(address)(url)
    provider = None
    azure = getattr(sys.modules.get("openai.lib.azure"), "BaseAzureClient", None)
    if azure is not None and isinstance(client, azure):
        # Also on a domain of the user's own.
        provider = GenAiProviderNameValues.AZURE_AI_OPENAI
    return servers.server(address.host, address.port or (80 if address.scheme == "http" else 443), provider)
