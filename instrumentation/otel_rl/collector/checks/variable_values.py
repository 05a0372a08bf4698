"""Checks of the collector's environment variables: unknown names and invalid values."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from otel_rl.collector import binary
from otel_rl.collector.checks import removed_variables
from otel_rl.collector.checks.durations import SECOND, nanoseconds
from otel_rl.collector.parts.files import folder
from otel_rl.collector.parts.variables import names_in, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PREFIX = "OTEL_RL_COLLECTOR_"
_NUMBERED = re.compile(rf"{PREFIX}GATEWAY_[1-9]\d*")
_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[\w.-]+)"
_HIGHEST_PORT = 65535


def _whole_number(least: int, most: int | None = None) -> Callable[[str], str]:
    def check(value: str) -> str:
        fits = value.isdecimal() and int(value) >= least and (most is None or int(value) <= most)
        wanted = f"a whole number from {least} to {most}" if most is not None else f"a whole number of at least {least}"
        return "" if fits else wanted

    return check


def _share(value: str) -> str:
    fits = re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) <= 100  # noqa: PLR2004
    return "" if fits else "a number from 0 to 100"


def _duration(value: str) -> str:
    return "" if nanoseconds(value) else "a duration such as 500ms, 15s or 2m, above 0s"


def _whole_seconds(value: str) -> str:
    length = nanoseconds(value)
    return "" if length is not None and length % SECOND == 0 else "a duration in whole seconds, such as 10s"


def _address(least_port: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        found = re.fullmatch(rf"((https?|dns)://+)?{_HOST}:(?P<port>\d{{1,5}})", value, re.ASCII)
        fits = found is not None and least_port <= int(found["port"]) <= _HIGHEST_PORT
        return "" if fits else f"host:port, such as gateway:4317 or [::1]:4317, with a port up to {_HIGHEST_PORT}"

    return check


def _url(value: str) -> str:
    found = re.fullmatch(rf"https?://([^/?#\s@]*@)?{_HOST}(:(?P<port>\d{{1,5}}))?([/?#]\S*)?", value, re.ASCII)
    fits = found is not None and int(found["port"] or 1) in range(1, _HIGHEST_PORT + 1)
    return "" if fits else "a URL that begins with http:// or https:// and a host, such as http://tempo:4318"


def _host(value: str) -> str:
    # One of IPv6 is written into the configuration, which does not read the variable then.
    return "" if re.fullmatch(r"[\w.-]+", value) else "an address or a host name without a port, such as 0.0.0.0 or ::1"


def _name(value: str) -> str:
    fits = value.isprintable() and not re.search(r'["\\$]', value)
    return "" if fits else "a name without quotes, backslashes and dollar signs"


def _engines(value: str) -> str:
    found = typed(value)
    fits = isinstance(found, list) and all(
        isinstance(each, str) and "//" not in each and not _address(1)(each) for each in found
    )
    return "" if fits else 'a list of host:port, such as ["127.0.0.1:8000"]'


def _discoveries(value: str) -> str:
    found = typed(value)
    fits = isinstance(found, list) and all(
        isinstance(each, dict) and not _url(str(each.get("url", ""))) for each in found
    )
    return "" if fits else "a list of discoveries, such as [{url: http://127.0.0.1:8265/api/prometheus/sd}]"


def _path(value: str) -> str:
    expanded = os.path.expanduser(value)  # noqa: PTH111 - pathlib raises where nobody has that home
    return "" if expanded == value else f"a path: only a shell knows ~; write {expanded}"


_VALUES: dict[str, Callable[[str], str]] = {
    "GRPC_PORT": _whole_number(0, _HIGHEST_PORT),
    "HTTP_PORT": _whole_number(0, _HIGHEST_PORT),
    "METRICS_PORT": _whole_number(0, _HIGHEST_PORT),
    "LISTEN": _host,
    "INSTANCE": _name,
    "HEALTH_ENDPOINT": _address(0),
    "OTLP_ENDPOINT": _address(1),
    "GATEWAY": _address(1),
    "MLFLOW_EXPERIMENT_ID": _whole_number(0),
    "ENGINES": _engines,
    "ENGINE_ROUTERS": _engines,
    "ENGINE_DISCOVERY": _discoveries,
    "ENGINE_TARGETS": _path,
    "ENGINE_RUN_ID": _name,
    "PROJECT": _name,
    "LANGFUSE_PUBLIC_KEY": _name,
    "OPIK_WORKSPACE": _name,
    "WEAVE_ENTITY": _name,
    "MEMORY_LIMIT_MIB": _whole_number(1),
    "QUEUE_BYTES": _whole_number(1_000_000),
    "SLOW_MILLISECONDS": _whole_number(0),
    "SAMPLED_PERCENTAGE": _share,
    "OUTLIER_PERCENTAGE": _share,
    "DECISION_WAIT": _duration,
    "ROOT_WAIT": _whole_seconds,
}
"""Variable (without prefix) -> validator that returns an error text, or ""."""
_ENDS = {"_DIR": _path, "_FILE": _path, "_URL": _url}
"""The same by the last word of a variable."""


def problems(configuration: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """List our variables that no file reads, or no longer, and invalid values of those that this one reads."""
    used = names_in(configuration)
    set_here = {name: value.strip() for name, value in environ.items() if name.startswith(PREFIX)}
    read_here = {name: value for name, value in set_here.items() if name in used and value}
    return [
        *_unknown(set_here, used),
        *_other_number_of_gateways(used, set_here),
        *_wrong(read_here),
    ]


def _unknown(names: Mapping[str, str], used: Mapping[str, object]) -> Iterator[str]:
    candidates = [name for name in names if name != binary.VARIABLE and not _NUMBERED.fullmatch(name)]
    if not candidates:
        return
    known = set(used) | {
        name for file in folder().rglob("*.yaml") for name in names_in(file.read_text(encoding="utf-8"))
    }
    for name in candidates:
        if name in known:
            continue
        instead = removed_variables.replacement(name.removeprefix(PREFIX))
        if instead:
            yield f"{name} is set, but no longer read; {instead}"
        else:
            near = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], 1)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else "unset it; collector-config/README.md lists them all"
            yield f"{name} is set, but nothing reads it; {hint}"


def _other_number_of_gateways(used: Mapping[str, object], set_here: Mapping[str, str]) -> Iterator[str]:
    """Report gateways that are set here and not read, while other agents may share with them."""
    if not any(name == f"{PREFIX}GATEWAY" or _NUMBERED.fullmatch(name) for name in used):
        return
    unread = sorted(name for name in set_here if _NUMBERED.fullmatch(name) and name not in used)
    if unread:
        number = sum(1 for name in set_here if _NUMBERED.fullmatch(name))
        names = ", ".join(unread)
        yield f"{names}: set, but not read with this number of gateways; use --gateways {number} or unset it"


def _wrong(read_here: Mapping[str, str]) -> Iterator[str]:
    for name, value in read_here.items():
        check = _VALUES.get("GATEWAY" if _NUMBERED.fullmatch(name) else name.removeprefix(PREFIX))
        check = _ENDS.get(name[name.rfind("_") :], check)
        if check and (wanted := check(value)):
            yield f"{name}={value} is not {wanted}; correct or unset it"
