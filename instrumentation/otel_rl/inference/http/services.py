"""Which requests go to a service that the user has named in ``OTEL_RL_SERVICES``; imports little of the pack.

Paths of the protocol of OpenAI stay model calls, on whichever host.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.inference.http import paths
from otel_rl.inference.http.paths import DECLARED, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.core.settings import ServiceAddress
    from otel_rl.inference.http.paths import Target

#: Ports of URLs that name none.
PORTS = {"http": 80, "https": 443}


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
    host, port = host.strip("[]").rstrip(".").lower(), port or PORTS.get(scheme)
    for name, prefix in _at(scheme, host, port):
        if not prefix or path == prefix or path.startswith(f"{prefix}/"):
            target = target_of(method, path)
            is_model_call = target is not None and target.anywhere and is_of_model(target, scheme, host, port, path)
            return None if is_model_call else name
    return None


def is_of_model(target: Target, scheme: str, host: str, port: int | None, path: str) -> bool:
    """Return whether a path that the user has declared is one of a model on this host; others always are."""
    if target.path != DECLARED:
        return True
    declared = _of(settings.current().model_paths or (), scheme, host.lower(), port or PORTS.get(scheme))
    return any(path.rstrip("/").endswith(address.path) for address in declared)


def are_named() -> bool:
    """Return whether the user has named any."""
    return settings.current().services is not None


def _of(addresses: Iterable[ServiceAddress], scheme: str, host: str, port: int | None) -> Iterator[ServiceAddress]:
    for address in addresses:
        if address.scheme in (None, scheme) and address.port in (None, port) and _matches(address.host, host):
            yield address


@lru_cache(maxsize=1024)
def _at(scheme: str, host: str, port: int | None) -> tuple[tuple[str, str], ...]:
    """Return names and beginnings of paths of the services at one address, in the user's order."""
    services = settings.current().services or ()
    return tuple((service.name, service.path) for service in _of(services, scheme, host, port))


def _matches(pattern: str, host: str) -> bool:
    if "*" not in pattern:
        return pattern == host
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), host) is not None


def forget() -> None:
    """Forget what the settings said: for tests, which change them."""
    _at.cache_clear()
    paths.forget()
