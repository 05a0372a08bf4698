"""The hooks of ``requests``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.inference.http import senders
from otel_rl.inference.http.senders import Client
from otel_rl.telemetry import propagation

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.inference.http.base_call import HttpCall
    from otel_rl.instrumentors.patching import Patches


def patch_sessions(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.sessions``."""
    patches.observe(module, "Session.prepare_request", after=_prepared, required=True)
    # Called for each redirect, when its address is known; few sessions replace it, and many `rebuild_auth`.
    patches.observe(module, "SessionRedirectMixin.rebuild_method", before=_redirecting)
    senders.observe(patches, module, "Session.send", _CLIENT)


def patch_models(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.models``."""
    patches.observe(module, "Response.json", after=_parsed, required=True)
    patches.observe(module, "Response.close", after=_closed, required=True)


def _head(request: Any) -> tuple[str, str]:
    return request.method, urlsplit(request.url).path


def _url(request: Any) -> tuple[str, str, int | None, str]:
    url = urlsplit(request.url)
    return url.scheme, url.hostname or "", url.port, url.path


def _prepared(prepared: Any, _session: Any, request: Any) -> None:
    if request.json is not None:
        senders.keep_body(prepared, request.json, _head(prepared))


def _redirecting(_session: Any, prepared: Any, _response: Any) -> None:
    propagation.withhold(prepared.headers, prepared.url)


def _parsed(value: Any, response: Any, **_: Any) -> None:
    senders.parsed(response, value)


def _closed(_: None, response: Any) -> None:
    content = response._content  # noqa: SLF001 - the property would read it; False and None until it is there
    complete = response._content_consumed  # noqa: SLF001 - since 0.8, and there is no public name
    senders.closed(response, complete=complete, content=content or None)


def _follow(response: Any, call: HttpCall) -> None:
    """All ways to read a response go through the one of ``urllib3``, whose instrumentor sees the chunks."""
    raw = response.raw
    if raw is not None:
        call.is_followed_by(raw, response)


_CLIENT = Client("requests", _head, _url, _follow)
