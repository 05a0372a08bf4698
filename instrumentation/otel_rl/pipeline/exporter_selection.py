"""Selects the exporters of each signal from the environment, without side effects.

An explicit ``OTEL_<SIGNAL>_EXPORTER`` wins; else an ``OTEL_EXPORTER_OTLP_*ENDPOINT`` means OTLP; else the file store.
"""

# ruff: noqa: PTH100, PTH118 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.core import addresses
from otel_rl.process import launch

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGNALS = ("traces", "metrics", "logs")
#: The file store's name in ``OTEL_<SIGNAL>_EXPORTER``, for those who want it beside another exporter.
FILE = "otel_rl_file"
OTLP_GRPC = "otlp_proto_grpc"
OTLP_HTTP = "otlp_proto_http"
_OTLP = "otlp"
_HTTP_JSON = "http/json"
_BY_PROTOCOL = {"grpc": OTLP_GRPC, "http/protobuf": OTLP_HTTP, _HTTP_JSON: "otlp_json_http"}
_HTTP_PORT = 4318
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True)
class Plan:
    """The exporters of each signal by entry-point name (none: it is off), and what was wrong in the variables."""

    exporters: Mapping[str, tuple[str, ...]]
    complaints: tuple[str, ...] = ()


def choose(environ: Mapping[str, str]) -> Plan:
    """Return the plan for ``environ``."""
    complaints: list[str] = []
    chosen = {signal: _choose(environ, signal, complaints) for signal in SIGNALS}
    return Plan(chosen, tuple(dict.fromkeys(complaints)))


def endpoint(environ: Mapping[str, str], signal: str) -> str | None:
    """Return the OTLP endpoint configured for ``signal``."""
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "").strip()
    return own or environ.get(_ENDPOINT, "").strip() or None


def _choose(environ: Mapping[str, str], signal: str, complaints: list[str]) -> tuple[str, ...]:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    explicit = [name.strip() for name in environ.get(variable, "").split(",") if name.strip()]
    if any(name.lower() == "none" for name in explicit):
        return ()
    names = []
    for wanted in explicit:
        # The specification compares names without regard to case.
        name = wanted if _is_known(signal, wanted) else wanted.lower()
        if not _is_known(signal, name):
            name = _default(environ, signal)
            complaints.append(f'otel-rl: {variable}="{wanted}" is not an installed exporter; using {name}')
        names.append(_protocol(environ, signal, complaints) if name == _OTLP else name)
    return tuple(dict.fromkeys(names)) or (
        (_protocol(environ, signal, complaints),) if endpoint(environ, signal) else (FILE,)
    )


def _default(environ: Mapping[str, str], signal: str) -> str:
    return _OTLP if endpoint(environ, signal) else FILE


def _is_known(signal: str, name: str) -> bool:
    return name in (FILE, _OTLP) or _is_installed(signal, name)


def _is_installed(signal: str, name: str) -> bool:
    from opentelemetry.util._importlib_metadata import entry_points  # noqa: PLC0415 - only with an explicit exporter

    return bool(list(entry_points(group=f"opentelemetry_{signal}_exporter", name=name)))


def _protocol(environ: Mapping[str, str], signal: str, complaints: list[str]) -> str:
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    for name in (variable, "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if value := environ.get(name, "").strip():
            protocol = value.lower()
            if protocol in _BY_PROTOCOL and (protocol != _HTTP_JSON or _is_installed(signal, _BY_PROTOCOL[protocol])):
                return _BY_PROTOCOL[protocol]
            is_http = protocol.startswith("http")
            used = OTLP_HTTP if is_http else _protocol_of_endpoint(endpoint(environ, signal))
            shown = "http/protobuf" if used == OTLP_HTTP else "grpc"
            complaints.append(f'otel-rl: {name}="{value}" is not grpc or http/protobuf; using {shown}')
            return used
    return _protocol_of_endpoint(endpoint(environ, signal))


def _protocol_of_endpoint(address: str | None) -> str:
    """gRPC, as OpenTelemetry for Python defaults to, unless the address can only be HTTP: port 4318 or a path."""
    # Without a scheme, as gRPC allows, urlsplit would take the host for one.
    try:
        parts = urlsplit(address if address and "://" in address else f"//{address or ''}")
        is_http = parts.port == _HTTP_PORT or bool(parts.path.strip("/"))
    except ValueError:
        # What is wrong with it is said when something is to be sent there.
        is_http = False
    return OTLP_HTTP if is_http else OTLP_GRPC


def destination(environ: Mapping[str, str], signal: str, exporter: str) -> str:
    """Describe the destination of ``exporter`` to the user."""
    if exporter == FILE:
        directory = environ.get(launch.DATA_DIRECTORY, "").strip() or "otel-rl"
        return os.path.join(os.path.abspath(directory), environ.get(launch.RUN_ID, "").strip() or "<run id>")
    if exporter.startswith("otlp"):
        default = "http://localhost:4317" if exporter == OTLP_GRPC else "http://localhost:4318"
        return addresses.without_credentials(endpoint(environ, signal) or default)
    return exporter


def describe(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Describe the set-up that ``environ`` selects, for ``otel-rl doctor``; this creates and contacts nothing."""
    environ = os.environ if environ is None else environ
    plan = choose(environ)
    return {
        "disabled": launch.disabled(environ),
        "config_file": environ.get("OTEL_CONFIG_FILE") or None,
        "distro": environ.get("OTEL_PYTHON_DISTRO", launch.NAME),
        "configurator": environ.get("OTEL_PYTHON_CONFIGURATOR", launch.NAME),
        "children": environ.get("OTEL_RL_CHILDREN", "launchers"),
        "run_id": environ.get(launch.RUN_ID) or launch.launcher_job(environ),
        "signals": {
            signal: [{"exporter": name, "destination": destination(environ, signal, name)} for name in names]
            for signal, names in plan.exporters.items()
        },
        "complaints": list(plan.complaints),
    }
