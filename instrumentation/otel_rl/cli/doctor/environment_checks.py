"""The findings of ``otel-rl doctor`` about this environment."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.cli.doctor import (
    credential_files,
    installed_instrumentors,
    late_ranks,
    mlflow_server,
    named_functions,
    otlp_request,
    products,
    ray_workers,
    redaction_function,
    uncovered_frameworks,
)
from otel_rl.core import __version__, settings
from otel_rl.pipeline import exporter_selection
from otel_rl.process import launch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PACKAGES = ("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-instrumentation", "opentelemetry-distro")
_CONFIGURATION = "opentelemetry-configuration"


def check(environ: Mapping[str, str], command: Sequence[str] = ()) -> dict[str, Any]:
    """Everything about this environment as one JSON-serialisable object; ``problems`` are sentences.

    ``command`` is the program that will run in it: what its variables name is looked for beside it.
    """
    configured, problems = settings.load(environ)
    planned = exporter_selection.describe(environ)
    problems += planned.pop("complaints")
    instrumentors = installed_instrumentors.states(environ)
    problems += [f"{name}: {state['reason']}" for name, state in instrumentors.items() if state.get("problem")]
    ranks, without_times = late_ranks.state(configured, environ, instrumentors)
    workers, without_hook = ray_workers.state(environ)
    problems += _start_problems(planned) + without_times + without_hook
    if planned["config_file"] and (unusable := _unusable_file(planned["config_file"])):
        problems.append(unusable)
        planned["config_file"] = None
    if configured.redact is not None and (unusable := redaction_function.problem(configured.redact, command)):
        problems.append(unusable)
    functions = named_functions.states(configured, command)
    problems += named_functions.problems(functions)
    directory = _data_directory(configured.data_directory, planned["signals"], problems)
    _ask_destinations(planned, environ, problems)
    tracked = mlflow_server.state(environ) if configured.mlflow and not planned["disabled"] else None
    problems += tracked.pop("problems") if tracked is not None else []
    return {
        "versions": {"otel-rl": __version__, "python": platform.python_version(), **_versions()},
        "python": sys.executable,
        **planned,
        "data_directory": directory,
        **({"mlflow": tracked} if tracked is not None else {}),
        "late_ranks": ranks,
        "ray_workers": workers,
        "instrumentors": instrumentors,
        "not_covered": uncovered_frameworks.installed_here(instrumentors),
        "functions": functions,
        "problems": list(dict.fromkeys(problems)),
    }


def _versions() -> dict[str, str]:
    return {name: version for name in _PACKAGES if (version := installed_instrumentors.installed(name)) is not None}


def _start_problems(planned: dict[str, Any]) -> list[str]:
    problems = []
    if planned["disabled"]:
        problems.append("OTEL_SDK_DISABLED is set: nothing is recorded")
    if planned["distro"] != launch.NAME:
        problems.append(f"OTEL_PYTHON_DISTRO={planned['distro']}: another distro starts, ours does not")
    return problems


def _unusable_file(path: str) -> str:
    """Why a run goes by the other variables although ``OTEL_CONFIG_FILE`` is set; empty where it goes by the file."""
    if not Path(path).is_file():
        return f"OTEL_CONFIG_FILE={path} is no file; a run goes by the other variables"
    if installed_instrumentors.installed(_CONFIGURATION) is None:
        return (
            f"OTEL_CONFIG_FILE is set but {_CONFIGURATION} is not installed (pip install {_CONFIGURATION}); a run"
            " goes by the other variables"
        )
    return ""


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
    """Try in the nearest folder that exists: the check leaves nothing behind."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _ask_destinations(planned: dict[str, Any], environ: Mapping[str, str], problems: list[str]) -> None:
    """Send an empty request to each OTLP destination that a run would use; ``answers`` says what came of it."""
    exporters = [
        (signal, exporter) for signal, planned_exporters in planned["signals"].items() for exporter in planned_exporters
    ]
    for _, exporter in exporters:
        exporter["answers"] = ""
    if planned["disabled"] or planned["config_file"]:
        # Nothing is sent, or the file says where.
        return
    unreadable = credential_files.unreadable(environ, planned["signals"])
    problems += [sentence for sentences in unreadable.values() for sentence in sentences]
    asked = []
    for signal, exporter in exporters:
        if (signal, exporter["exporter"]) in unreadable and not exporter["destination"].startswith("http://"):
            exporter["answers"] = "was not asked: a file for TLS cannot be read"
        elif exporter["exporter"].startswith("otlp"):
            asked.append((signal, exporter))
    refusals: dict[tuple[str, str], list[str]] = {}
    sentences = otlp_request.send_all([(signal, exporter["exporter"]) for signal, exporter in asked])
    for (signal, exporter), answered in zip(asked, sentences, strict=True):
        sentence = products.explained(exporter["destination"], signal, answered)
        exporter["answers"] = sentence.partition(";")[0] or "yes"
        if sentence:
            refusals.setdefault((exporter["destination"], sentence), []).append(signal)
    problems += [f"{', '.join(signals)}: {where} {sentence}" for (where, sentence), signals in refusals.items()]
