"""The address of the receivers, ``OTEL_RL_COLLECTOR_LISTEN``, where it is one of IPv6.

With a port behind it such an address needs brackets, and without one it must have none. One variable cannot stand in
both places, so the address itself is written into the parts.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.collector.parts.files import ConfigurationPart

VARIABLE = "OTEL_RL_COLLECTOR_LISTEN"
_REFERENCE = re.compile(
    rf"\$\{{env:{VARIABLE}(?::-[^{{}}]*)?\}}(?P<port>:(?:\d+|\$\{{env:\w+(?::-[^{{}}]*)?\}}))?",
)


def written_in(parts: Sequence[ConfigurationPart], environ: Mapping[str, str] | None) -> list[ConfigurationPart]:
    """Return the parts with the address in place of its variable; as they are without variables or with IPv4."""
    address = _ipv6(environ or {})
    if not address:
        return list(parts)

    def put(reference: re.Match[str]) -> str:
        text = with_port(address, reference["port"][1:]) if reference["port"] else address
        is_whole = reference.string[reference.start() - 1 : reference.start()].isspace()
        return f'"{text}"' if is_whole else text  # in YAML a bracket at the start would begin a list

    return [replace(part, text=_REFERENCE.sub(put, part.text)) for part in parts]


def with_port(host: str, port: object) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ipv6(environ: Mapping[str, str]) -> str:
    """Return the address without brackets, or "" where the variable names none of IPv6."""
    given = environ.get(VARIABLE, "").strip()
    bare = given[1:-1] if given.startswith("[") and given.endswith("]") else given
    try:
        return bare if ipaddress.ip_address(bare).version == 6 else ""  # noqa: PLR2004
    except ValueError:
        return ""
