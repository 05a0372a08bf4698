"""Which requests go to a service that the user has named in ``OTEL_RL_SERVICES``; imports little of the pack.

Paths of the protocol of OpenAI stay model calls, on whichever host.
"""

from __future__ import annotations

import re
from functools import lru_cache

from otel_rl.core import settings
from otel_rl.inference.http.paths import target_of

_PORTS = {"http": 80, "https": 443}


def name_of(method: str, scheme: str, host: str, port: int | None, path: str) -> str | None:
    """Return the name of the service that a request goes to; None for any other request.

    Args:
        method: in any case.
        scheme: ``http`` or ``https``.
        host: as the program writes it.
        port: None for the scheme's.
        path: of the URL, without its query.
    """
    if settings.current().services is None or not isinstance(host, str):
        return None
    for name, prefix in _at(scheme, host.strip("[]").rstrip(".").lower(), port or _PORTS.get(scheme)):
        if not prefix or path == prefix or path.startswith(f"{prefix}/"):
            target = target_of(method, path)
            return None if target is not None and target.anywhere else name
    return None


def are_named() -> bool:
    """Return whether the user has named any."""
    return settings.current().services is not None


@lru_cache(maxsize=1024)
def _at(scheme: str, host: str, port: int | None) -> tuple[tuple[str, str], ...]:
    """Return names and beginnings of paths of the services at one address, in the user's order."""
    return tuple(
        (service.name, service.path)
        for service in settings.current().services or ()
        if service.scheme in (None, scheme) and service.port in (None, port) and _matches(service.host, host)
    )


def _matches(pattern: str, host: str) -> bool:
    if "*" not in pattern:
        return pattern == host
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), host) is not None


def forget() -> None:
    """Forget what the settings said: for tests, which change them."""
    _at.cache_clear()
