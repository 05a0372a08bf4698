"""Every combination of role, sinks and options to test, made from the tables of the command."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from otel_rl.cli.collector import choices

if TYPE_CHECKING:
    from collections.abc import Iterator

GATEWAYS = (1, 2, 3)

REQUIRED = {
    "OTEL_RL_COLLECTOR_OTLP_ENDPOINT": "127.0.0.1:9",
    **{f"OTEL_RL_COLLECTOR_GATEWAY_{number}": "127.0.0.1:9" for number in GATEWAYS},
}
"""Variables without a default, with an address where nobody listens."""


def selections() -> list[choices.Selection]:
    """Every role with every sink, every number of gateways and every pair of options, and with all that agree."""
    found = {selection.arguments(): selection for role in choices.ROLES for selection in _of_role(role)}
    return list(found.values())


def _of_role(role: str) -> Iterator[choices.Selection]:
    sinks = [name for name, sink in choices.SINKS.items() if role in sink.roles]
    options = [name for name, option in choices.OPTIONS.items() if role in option.roles]
    ways = [*((name,) for name in sinks), tuple(sinks)] if sinks else [()]
    ways = [(), *ways] if role == choices.LOCAL else ways
    pairs = [(), *((name,) for name in options), *combinations(options, 2)]
    counts = (None, *GATEWAYS) if role != choices.LOCAL else (None,)
    for chosen in pairs:
        for way in ways:
            yield from _accepted(role, way, chosen, None)
        for count in counts:
            yield from _accepted(role, ways[0], chosen, count)


def _accepted(
    role: str, sinks: tuple[str, ...], options: tuple[str, ...], gateways: int | None
) -> Iterator[choices.Selection]:
    try:
        yield choices.select(role, sinks, options, gateways)
    except choices.Refused:
        return
