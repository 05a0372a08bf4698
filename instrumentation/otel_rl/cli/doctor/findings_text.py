"""The findings of ``otel-rl doctor`` as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.cli.doctor.installed_instrumentors import READY
from otel_rl.core import instrumentor_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNKNOWN_RUN = "made at start"
_OF_TRAINING = ("steps", "phases", "values")
#: States of an instrumentor that records, or will once its library is imported.
_RECORDING = (READY, instrumentor_status.ACTIVE, instrumentor_status.DEGRADED)


def as_text(findings: dict[str, Any]) -> str:
    """Return the findings for a person, in plain text."""
    versions = ", ".join(f"{name} {version}" for name, version in findings["versions"].items())
    directory = findings["data_directory"]
    rows = [
        ("versions", versions),
        ("interpreter", findings["python"]),
        ("run id", findings["run_id"] or _UNKNOWN_RUN),
        ("children", findings["children"]),
        ("data directory", f"{directory['path']} ({_directory_state(directory)})"),
    ]
    if findings["late_ranks"]:
        rows.append(("late ranks", findings["late_ranks"]))
    if findings["ray_workers"]:
        rows.append(("workers of Ray", findings["ray_workers"]))
    if findings["config_file"]:
        rows.append(
            ("config file", f"{findings['config_file']} (decides where telemetry goes; nothing was sent there)")
        )
    if "mlflow" in findings:
        rows.append(("mlflow", _mlflow(findings["mlflow"])))
    if findings["config_file"]:
        findings = {**findings, "signals": {}}
    signals = [
        (signal, exporter["exporter"], exporter["destination"], exporter["answers"] or "-")
        for signal, exporters in findings["signals"].items()
        for exporter in exporters or [{"exporter": "off", "destination": "-", "answers": ""}]
    ]
    states = [
        (name, row["state"], row.get("installed") or "-", row.get("supports") or "-", row["reason"])
        for name, row in findings["instrumentors"].items()
    ]
    parts = [
        _table(rows),
        *([_table(signals, ("signal", "exporter", "goes to", "answers"))] if signals else []),
        _table(states, ("instrumentor", "state", "installed", "supports", "why")),
    ]
    trainers = [
        (name.removeprefix("otel_rl_"), *(row["training"][what] for what in _OF_TRAINING))
        for name, row in findings["instrumentors"].items()
        if row.get("training") and row["state"] in _RECORDING
    ]
    if trainers:
        parts.append(_table(trainers, ("training loops of", *_OF_TRAINING)))
    if findings["not_covered"]:
        uncovered = [
            (f"{row['name']} {row['version']}", row["not_recorded"], row["recorded"]) for row in findings["not_covered"]
        ]
        parts.append(_table(uncovered, ("installed, not covered", "not recorded", "recorded anyway; what to add")))
    if findings["functions"]:
        functions = [
            (row["name"], row["variable"], row["state"], row["reason"] or "-") for row in findings["functions"]
        ]
        parts.append(_table(functions, ("function", "named by", "state", "why")))
    if "command" in findings:
        parts.append(_command(findings["command"]))
    problems = findings["problems"]
    parts.append(
        "\n".join(["problems:", *(f"  - {problem}" for problem in problems)]) if problems else "no problems found"
    )
    return "\n\n".join(parts)


def _command(command: Mapping[str, Any]) -> str:
    said = f"{command['program']} ended with exit code {command['exit_code']}"
    nothing = command["reported"] and not command["instrumented"]
    return f"{said}; nothing of it is instrumented: it imported none of these libraries" if nothing else said


def _directory_state(directory: Mapping[str, Any]) -> str:
    if not directory["used"]:
        return "not used: telemetry is sent"
    return "can be written" if directory["writable"] else "cannot be written"


def _mlflow(server: Mapping[str, Any]) -> str:
    parts = {"version": server["version"], "experiment": server["experiment"], "run": server["run"]}
    known = [f"{name} {text}" for name, text in parts.items() if text]
    return ", ".join([server["destination"], *known, *([f"traces: {server['traces']}"] if server["traces"] else [])])


def _table(rows: Sequence[Sequence[str]], titles: Sequence[str] = ()) -> str:
    lines = (
        [list(titles), ["-" * len(title) for title in titles], *map(list, rows)] if titles else list(map(list, rows))
    )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
