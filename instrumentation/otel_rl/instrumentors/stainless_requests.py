"""Requests of clients that Stainless generates: URL, body with what ``extra_body`` adds, server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import servers
from otel_rl.inference.requests import ModelRequest, endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable


def describe(client: Any, options: Any, provider_of: Callable[[Any], str | None]) -> ModelRequest | None:
    """Describe a request before it is sent; return None when it does not call a model."""
    if options.method.lower() != "post":
        return None
    endpoint = endpoint_of(options.url)
    if endpoint is None:
        return None
    return ModelRequest(endpoint, _server(client, options.url, provider_of(client)), _body(options))


def _body(options: Any) -> dict[str, Any]:
    """Return the body as the client will send it. Versions of openai before 1.30 have no separate ``extra_json``."""
    body = options.json_data
    added = getattr(options, "extra_json", None)
    if not isinstance(body, dict):
        body = {}
    return {**body, **added} if isinstance(added, dict) else body


def _server(client: Any, url: str, provider: str | None) -> servers.Server:
    # The property of the same name builds a new object at every access in some versions.
    address = client._base_url  # noqa: SLF001
    if "://" in url:
        # An absolute URL replaces the client's own.
        address = type(address)(url)
    return servers.server(address.host, address.port or (80 if address.scheme == "http" else 443), provider)
