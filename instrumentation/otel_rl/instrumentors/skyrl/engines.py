"""Versions of the weights: the client of the engines counts them, the engines do not report one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.inference import servers
from otel_rl.inference.answers import version_of_client
from otel_rl.telemetry.scope import enabled
from otel_rl.training import engine_versions

if TYPE_CHECKING:
    from contextvars import Token


def generate_begins(client: Any, *_: Any, **__: Any) -> Token[str | None] | None:
    """Name the version that requests are sent to; a sync that comes while one runs does not change its version."""
    return version_of_client.set(str(client.weight_version)) if enabled() else None


def generate_ended(token: Token[str | None], _: Any, __: BaseException | None) -> None:
    """Forget the version."""
    version_of_client.reset(token)


def synced(_: None, client: Any) -> None:
    """Note that the engines behind the client have the weights of its next version."""
    if enabled():
        url = urlsplit(client.proxy_url)
        engine_versions.given(servers.ascii_host(url.hostname or ""), url.port, client.weight_version)
