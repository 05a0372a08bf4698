"""Checks of the collector's environment variables: unknown names and invalid values."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from otel_rl.collector import binary
from otel_rl.collector.parts.files import folder
from otel_rl.collector.parts.variables import names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PREFIX = "OTEL_RL_COLLECTOR_"
_NUMBERED = re.compile(rf"{PREFIX}GATEWAY_[1-9]\d*")
_DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+")


def _number(least: int, most: int | None = None) -> Callable[[str], str]:
    def check(value: str) -> str:
        fits = value.isdecimal() and int(value) >= least and (most is None or int(value) <= most)
        wanted = f"a whole number from {least} to {most}" if most is not None else f"a whole number of at least {least}"
        return "" if fits else wanted

    return check


def _share(value: str) -> str:
    fits = re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) <= 100  # noqa: PLR2004
    return "" if fits else "a number from 0 to 100"


def _duration(value: str) -> str:
    return "" if _DURATION.fullmatch(value) else "a duration such as 500ms, 15s or 2m"


def _address(value: str) -> str:
    plain = re.sub(r"^(https?|dns)://+", "", value)
    return "" if re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}", plain) else "host:port, such as gateway:4317"


def _url(value: str) -> str:
    return "" if re.match(r"https?://[^/\s]+", value) else "a URL that begins with http:// or https://"


def _one_of(*words: str) -> Callable[[str], str]:
    return lambda value: "" if value in words else " or ".join(words)


_VALUES: dict[str, Callable[[str], str]] = {
    "GRPC_PORT": _number(0, 65535),
    "HTTP_PORT": _number(0, 65535),
    "METRICS_PORT": _number(0, 65535),
    "HEALTH_ENDPOINT": _address,
    "OTLP_ENDPOINT": _address,
    "GATEWAY": _address,
    "PROMETHEUS_URL": _url,
    "TEMPO_URL": _url,
    "LOKI_URL": _url,
    "MEMORY_LIMIT_MIB": _number(1),
    "MEMORY_SPIKE_MIB": _number(1),
    "QUEUE_BYTES": _number(1_000_000),
    "SINK_QUEUE_BYTES": _number(1_000_000),
    "GATEWAY_COUNT": _number(1, 256),
    "SPAN_BUDGET": _number(0),
    "SLOW_MILLISECONDS": _number(0),
    "SAMPLED_PERCENTAGE": _share,
    "OUTLIER_PERCENTAGE": _share,
    "DECISION_WAIT": _duration,
    "ROOT_WAIT": _duration,
    "FLUSH_TIMEOUT": _duration,
    "SPAN_METRICS_INTERVAL": _duration,
    "SELF_INTERVAL": _duration,
    "TLS_RELOAD_INTERVAL": _duration,
    "FINGERPRINTS": _one_of("true", "false"),
    "OTLP_INSECURE": _one_of("true", "false"),
    "FILE_WHEN_FULL": _one_of("drop", "push_back"),
    "OTLP_WHEN_FULL": _one_of("drop", "wait"),
    "LOG_LEVEL": _one_of("debug", "info", "warn", "error"),
}
"""Variable (without prefix) -> validator that returns an error text, or ""."""


def problems(configuration: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """List our variables that no file reads, and invalid values of the variables that this configuration reads."""
    used = names_in(configuration)
    set_here = {name: value.strip() for name, value in environ.items() if name.startswith(PREFIX)}
    read_here = {name: value for name, value in set_here.items() if name in used and value}
    return [
        *_unknown(set_here, used),
        *_other_number_of_gateways(used, set_here),
        *_wrong(read_here),
        *_memory(configuration, read_here),
        *_fingerprints(read_here),
    ]


def _unknown(names: Mapping[str, str], used: Mapping[str, object]) -> Iterator[str]:
    candidates = [name for name in names if name != binary.VARIABLE and not _NUMBERED.fullmatch(name)]
    if not candidates:
        return
    known = set(used) | {
        name for file in folder().rglob("*.yaml") for name in names_in(file.read_text(encoding="utf-8"))
    }
    for name in candidates:
        if name not in known:
            near = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], 1)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else "unset it; collector-config/README.md lists them all"
            yield f"{name} is set, but nothing reads it; {hint}"


def _other_number_of_gateways(used: Mapping[str, object], set_here: Mapping[str, str]) -> Iterator[str]:
    """Gateways that an agent was told of but does not share with, while its peers may."""
    if not any(name == f"{PREFIX}GATEWAY" or _NUMBERED.fullmatch(name) for name in used):
        return
    unread = sorted(name for name in set_here if _NUMBERED.fullmatch(name) and name not in used)
    if unread:
        number = sum(1 for name in set_here if _NUMBERED.fullmatch(name))
        names = ", ".join(unread)
        yield f"{names}: set, but not read with this number of gateways; use --gateways {number} or unset it"


def _wrong(read_here: Mapping[str, str]) -> Iterator[str]:
    for name, value in read_here.items():
        check = _address if _NUMBERED.fullmatch(name) else _VALUES.get(name.removeprefix(PREFIX))
        if check and (wanted := check(value)):
            yield f"{name}={value} is not {wanted}; correct or unset it"


def _memory(configuration: Mapping[str, object], read_here: Mapping[str, str]) -> Iterator[str]:
    limit, spike = f"{PREFIX}MEMORY_LIMIT_MIB", f"{PREFIX}MEMORY_SPIKE_MIB"
    if limit not in read_here and spike not in read_here:
        return
    values = {name: read_here.get(name) or names_in(configuration).get(name) or "" for name in (limit, spike)}
    if all(value.isdecimal() for value in values.values()) and int(values[spike]) >= int(values[limit]) > 0:
        yield f"{spike} ({values[spike]}) is not below {limit} ({values[limit]}); it would refuse from the start"


def _fingerprints(read_here: Mapping[str, str]) -> Iterator[str]:
    key = f"{PREFIX}FINGERPRINT_KEY"
    if read_here.get(f"{PREFIX}FINGERPRINTS") == "true" and key not in read_here:
        yield f"{key} is not set, but fingerprints are on; set the same key on every node, or turn them off"
