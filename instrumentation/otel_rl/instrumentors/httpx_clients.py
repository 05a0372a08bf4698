"""Hooks of ``httpx``, and of ``httpx2``, which has the same classes.

The client reads an answer that is no stream before ``send`` returns.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.served_engines import calls, senders
from otel_rl.served_engines.calls import Url
from otel_rl.served_engines.senders import Client

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.telemetry.scope import Scope


def patch_client(scope: Scope, module: ModuleType, patches: Patches) -> None:
    """Patch ``_client``."""
    client = Client(scope, _head, _url)
    patches.observe(module, "BaseClient.build_request", after=_built, required=True)
    patches.replace(module, "Client.send", partial(senders.sends, client), required=True)
    patches.replace(module, "AsyncClient.send", partial(senders.sends_async, client), required=True)


def patch_models(module: ModuleType, patches: Patches) -> None:
    """Patch ``_models``."""
    patches.observe(module, "Response.json", after=_parsed, required=True)
    patches.observe(module, "Response.close", after=_closed, required=True)
    patches.observe(module, "Response.aclose", after=_closed, required=True)


def _head(request: Any) -> tuple[str, str]:
    return request.method, request.url.path


def _url(request: Any) -> Url:
    url = request.url
    return Url(url.scheme, url.host, url.port, url.path)


def _built(request: Any, _client: Any, _method: Any = None, _url: Any = None, **given: Any) -> None:
    body = given.get("json")
    if body is not None and calls.may_be_one(*_head(request)):
        senders.keep_body(request, body)


def _parsed(value: Any, response: Any, **_: Any) -> None:
    calls.parsed(response, value)


def _closed(_: None, response: Any) -> None:
    calls.closed(response, complete=response.is_stream_consumed)
