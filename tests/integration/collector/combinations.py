"""Every combination of role, sinks and options to test, made from the tables of the command."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from certificates import Authority, secret

from otel_rl.collector.checks import settings
from otel_rl.collector.parts import choices, merge

if TYPE_CHECKING:
    from collections.abc import Iterator

GATEWAYS = (1, 2, 3)

REQUIRED = {
    "OTEL_RL_COLLECTOR_OTLP_ENDPOINT": "127.0.0.1:9",
    "OTEL_RL_COLLECTOR_MLFLOW_EXPERIMENT_ID": "1",
    "OTEL_RL_COLLECTOR_JAEGER_URL": "http://127.0.0.1:9",
    "OTEL_RL_COLLECTOR_LANGFUSE_PUBLIC_KEY": "pk",
    "OTEL_RL_COLLECTOR_WEAVE_ENTITY": "team",
    **{f"OTEL_RL_COLLECTOR_GATEWAY_{number}": "127.0.0.1:9" for number in GATEWAYS},
}
"""Variables without a default, with an address where nobody listens."""

_TLS, _TOKEN = ("tls", "mutual-tls"), ("token", "sink-token", "tenant")
WIRE = {
    choices.LOCAL: (("tls",), ("token",), ("basic",), (*_TLS, *_TOKEN), (*_TLS, "basic", "sink-basic", "tenant")),
    choices.AGENT: (
        ("tls",),
        ("receiver-token",),
        ("receiver-basic",),
        ("tls", "token", "load-balancing", "receiver-tls", "mutual-tls", "receiver-token"),
        ("tls", "basic", "load-balancing", "receiver-tls", "receiver-basic"),
        ("tls", "token", "receiver-tls", "mutual-tls", "receiver-basic"),
    ),
    choices.GATEWAY: (("tls",), (*_TLS, *_TOKEN, "durable"), ("tls", "basic", "sink-basic", "tenant", "strict")),
}
"""Sets of options for the wire. Each is a few settings beside those of the others, so not every pair is tried."""
_OF_THE_WIRE = {name for chosen in WIRE.values() for names in chosen for name in names} - {
    "durable",
    "strict",
    "load-balancing",
}


def variables(folder: Path) -> dict[str, str]:
    """Every variable that a selection needs, with files that an authority of the test's own gave out.

    Beside them are those files that a site names in a file of its own.
    """
    authority = Authority(folder)
    certificate, key = authority.issue("combination")
    htpasswd = f"train:{{SHA}}{base64.b64encode(hashlib.sha1(b'word').digest()).decode()}"  # noqa: S324  (its format)
    for name, content in (("filename", "token"), ("password_file", "word"), ("file", htpasswd)):
        secret(folder, name, content)
    values = {"CERT_FILE": str(certificate), "KEY_FILE": str(key), "CA_FILE": str(authority.file)}
    values["TOKEN_FILE"] = str(folder / "filename")
    names = {name for selection in selections() for part in choices.sources(selection) for name in _named(part.text)}
    ends = {name: next((value for end, value in values.items() if name.endswith(f"_{end}")), None) for name in names}
    return {**{name: value for name, value in ends.items() if value is not None}, **REQUIRED}


def completed(selection: choices.Selection, folder: Path, variables: dict[str, str]) -> choices.Selection:
    """Return the selection with a file for what its options leave to a site, or as it is where they leave nothing."""
    credentials = Path(variables["OTEL_RL_COLLECTOR_TOKEN_FILE"]).parent
    values = {"username": "train", "X-Scope-OrgID": "team"}
    values |= {name: str(credentials / name) for name in ("filename", "password_file", "file")}
    own: dict[str, Any] = {}
    for problem in settings.left_open(merge.merge(choices.sources(selection))):
        *parents, last = problem.partition(" has no value")[0].split(".")
        place = own
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = values[last]
    if not own:
        return selection
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(own))
    return replace(selection, files=[file])


def _named(text: str) -> list[str]:
    return re.findall(r"\$\{env:(\w+)", text)


@cache
def selections() -> list[choices.Selection]:
    """Every role with every sink, every number of gateways and every pair of options, and with all that agree."""
    found = {selection.arguments(): selection for role in choices.ROLES for selection in _of_role(role)}
    return list(found.values())


@cache
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
    options = [name for name, option in choices.OPTIONS.items() if role in option.roles and name not in _OF_THE_WIRE]
    ways = [*((name,) for name in sinks), tuple(sinks)] if sinks else [()]
    ways = [(), *ways] if role == choices.LOCAL else ways
    sets_of_options = [(), *((name,) for name in options), *combinations(options, 2)]
    counts = (None, *GATEWAYS) if role != choices.LOCAL else (None,)
    for chosen in WIRE[role]:
        yield from _accepted(role, ways[-1], chosen, None)
        yield from _accepted(role, ways[-1], chosen, counts[-1])
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
