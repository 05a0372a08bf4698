"""The sinks of the command line, ``NAME`` or ``NAME=URL``; the URL replaces the variable with the sink's address."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_rl.collector.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.collector.parts.files import ConfigurationPart

# Printable characters of an address: no account, query or fragment, nothing that YAML or the collector would expand.
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?(/[\w.~%+/-]*)?", re.ASCII)
_HIGHEST_PORT = 65535
_WITHOUT_TLS = ("tls: {insecure: false}", "tls: {insecure: true}")
"""What an exporter says that takes TLS from a setting of its own rather than from the scheme of its address."""


def split(words: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the names of the sinks, and the URLs of those that have one.

    Raises:
        Refused: a sink is named twice.
    """
    names: list[str] = []
    urls: dict[str, str] = {}
    for word in words:
        name, has_url, url = word.partition("=")
        if name in names:
            raise Refused(f"sink {name} is named twice; name it once, with one URL at most")
        names.append(name)
        if has_url:
            urls[name] = url
    return names, urls


def check(name: str, url: str, part: ConfigurationPart) -> None:
    """Check the URL of a sink. No message shows it: it may hold a password.

    Raises:
        Refused: it cannot be the address of this sink.
    """
    if not _variable(name).search(part.text):
        raise Refused(f"sink {name} has no endpoint that one URL could replace; write --sink {name} without =")
    if "@" in url:
        raise Refused(
            f"the URL of sink {name} has credentials in it, which every printed copy would show; leave them out"
        )
    if not re.match("https?://", url):
        raise Refused(f"the URL of sink {name} has no scheme; write --sink {name}=http://... or https://...")
    found = _URL.fullmatch(url)
    if not found or int(found["port"] or 1) not in range(1, _HIGHEST_PORT + 1):
        raise Refused(
            f"the URL of sink {name} is none; write scheme, host, port and path only: {name}=https://host:443/path"
        )


def put(part: ConfigurationPart, name: str, url: str) -> ConfigurationPart:
    """Return the part of a sink with the URL in place of its variable."""
    found = _variable(name).search(part.text)
    # Products publish the whole address of their route, of which the part has the end already.
    address = url.rstrip("/").removesuffix("/v1/traces").removesuffix(found["route"] if found else "")
    text = _variable(name).sub(lambda match: address + match["route"], part.text)
    return replace(part, text=text.replace(*_WITHOUT_TLS) if url.startswith("http://") else text)


def _variable(name: str) -> re.Pattern[str]:
    return re.compile(rf"\$\{{env:OTEL_RL_COLLECTOR_{name.upper()}_(URL|ENDPOINT)(:-[^{{}}]*)?\}}(?P<route>[\w./-]*)")
