"""The findings of ``otel-rl doctor`` about this environment."""

from __future__ import annotations

import platform
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl import settings
from otel_rl.cli.doctor import installed_instrumentors
from otel_rl.pipeline import exporter_selection
from otel_rl.process import launch
from otel_rl.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_TIMEOUT = 2.0
"""Seconds that a connection attempt may take."""

_PACKAGES = ("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-instrumentation", "opentelemetry-distro")
_PORTS = {exporter_selection.OTLP_GRPC: 4317, exporter_selection.OTLP_HTTP: 4318}


def check(environ: Mapping[str, str]) -> dict[str, Any]:
    """Everything about this environment as one JSON-serialisable object; ``problems`` are sentences."""
    configured, problems = settings.load(environ)
    planned = exporter_selection.describe(environ)
    problems += planned.pop("complaints")
    instrumentors = installed_instrumentors.states(environ)
    problems += [f"{name}: {one['reason']}" for name, one in instrumentors.items() if one.get("problem")]
    problems += _start_problems(planned)
    directory = _data_directory(configured.data_directory, planned["signals"], problems)
    reached: dict[str, str] = {}
    for exporter in (one for exporters in planned["signals"].values() for one in exporters):
        exporter["answers"] = _answers(exporter, reached)
        if exporter["answers"] not in ("", "yes"):
            problems.append(
                f"{exporter['destination']} does not answer ({exporter['answers']}); start a collector there, "
                "or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
            )
    return {
        "versions": {"otel-rl": __version__, "python": platform.python_version(), **_versions()},
        "python": sys.executable,
        **planned,
        "data_directory": directory,
        "instrumentors": instrumentors,
        "problems": list(dict.fromkeys(problems)),
    }


def _versions() -> dict[str, str]:
    return {name: found for name in _PACKAGES if (found := installed_instrumentors.installed(name)) is not None}


def _start_problems(planned: dict[str, Any]) -> list[str]:
    problems = []
    if planned["disabled"]:
        problems.append("OTEL_SDK_DISABLED is set: nothing is recorded")
    if planned["distro"] != launch.NAME:
        problems.append(f"OTEL_PYTHON_DISTRO={planned['distro']}: another distro starts, ours does not")
    if planned["config_file"] and not Path(planned["config_file"]).is_file():
        problems.append(f"OTEL_CONFIG_FILE={planned['config_file']} is no file")
    return problems


def _data_directory(directory: str, signals: Mapping[str, list[dict[str, str]]], problems: list[str]) -> dict[str, Any]:
    path = Path(directory).expanduser().absolute()
    used = any(
        exporter["exporter"] == exporter_selection.FILE for exporters in signals.values() for exporter in exporters
    )
    reason = _why_not_writable(path)
    if used and reason:
        problems.append(f"{path} cannot be written: {reason}; set OTEL_RL_DATA_DIR to a folder that can")
    return {"path": str(path), "used": used, "writable": not reason}


def _why_not_writable(path: Path) -> str:
    """Tries in the nearest folder that exists: the check leaves nothing behind."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _answers(exporter: Mapping[str, str], reached: dict[str, str]) -> str:
    """``yes``, why not, or ``""`` where there is nothing to connect to."""
    if not exporter["exporter"].startswith("otlp"):
        return ""
    address = exporter["destination"]
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port or (_PORTS.get(exporter["exporter"], 4318) if parts.scheme != "https" else 443)
    except ValueError:
        return "its port is no number"
    place = f"{parts.hostname}:{port}"
    if place not in reached:
        try:
            with socket.create_connection((parts.hostname or "localhost", port), timeout=CONNECT_TIMEOUT):
                reached[place] = "yes"
        except OSError as error:
            reached[place] = error.strerror or str(error) or type(error).__name__
    return reached[place]
