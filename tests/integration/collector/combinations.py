"""Every combination of role, sinks and options to test, made from the tables of the command."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from otel_rl.collector.parts import choices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def covering() -> list[choices.Selection]:
    """Some of them: each choice by itself, and whatever two choices go together at all together at least once."""
    found = selections()
    chosen = [selection for selection in found if len(pairs(selection)) <= _of_one_choice(selection.role)]
    wanted = set().union(*map(pairs, found)).difference(*map(pairs, chosen))
    while wanted:
        best = max(found, key=lambda selection: len(pairs(selection) & wanted))
        chosen.append(best)
        wanted -= pairs(best)
    return chosen


def _of_one_choice(role: str) -> int:
    """The number of pairs in a selection with one choice; a gateway has a sink beside it."""
    return 4 if role == choices.GATEWAY else 2


def pairs(selection: choices.Selection) -> set[tuple[str, ...]]:
    """Its role with each of its choices, and with each two of them."""
    gateways = [] if selection.gateways is None else [f"--gateways {selection.gateways}"]
    words = [*(f"--sink {name}" for name in selection.sinks), *(f"--with {name}" for name in selection.options)]
    chosen = sorted([*words, *gateways])
    return {(selection.role, *some) for size in range(3) for some in combinations(chosen, size)}


def files_of(selection: choices.Selection, folder: Path) -> list[str | Path]:
    """The parts as files: the shipped ones where they are, generated ones written to the folder."""
    files: list[str | Path] = []
    for number, part in enumerate(choices.sources(selection)):
        if (choices.folder() / part.name).is_file():
            files.append(part.name)
        else:
            files.append(folder / f"generated-{number}.yaml")
            (folder / f"generated-{number}.yaml").write_text(part.text)
    return files


def _of_role(role: str) -> Iterator[choices.Selection]:
    sinks = [name for name, sink in choices.SINKS.items() if role in sink.roles]
    options = [name for name, option in choices.OPTIONS.items() if role in option.roles]
    ways = [*((name,) for name in sinks), tuple(sinks)] if sinks else [()]
    ways = [(), *ways] if role == choices.LOCAL else ways
    sets_of_options = [(), *((name,) for name in options), *combinations(options, 2)]
    counts = (None, *GATEWAYS) if role != choices.LOCAL else (None,)
    for chosen in sets_of_options:
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
