"""Reading what an instrumented program left in its file store, and the classes of TRL."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import every_trainer
import pytest
import tomllib
import trl

if TYPE_CHECKING:
    from support.trl_runs import SeededRun

_VERSIONS = tomllib.loads((Path(__file__).parents[2] / "versions.toml").read_text())
LATEST = pytest.mark.skipif(trl.__version__ != _VERSIONS["trl"]["latest"], reason="names what the latest TRL has")


def every_class(often: set[str], names: set[str] | None = None) -> list[Any]:
    """Parameters: the trainer classes that are built, of these names only; all but those run ``often`` are slow."""
    found = []
    for name, kind in every_trainer.trainer_classes().items():
        short = kind.__name__.removesuffix("Trainer")
        if name not in every_trainer.SKIPPED and (names is None or short in names):
            marks = () if short in often and "bema" not in name else pytest.mark.slow
            found.append(pytest.param(kind, id=name.removeprefix("trl."), marks=marks))
    return found


@dataclass
class Process:
    """What one process of the run recorded."""

    rank: int
    manifest: dict[str, Any]
    resource: dict[str, Any] = field(default_factory=dict)
    spans: list[dict[str, Any]] = field(default_factory=list)
    #: metric -> attributes (as sorted pairs) -> the last point
    points: dict[str, dict[tuple[tuple[str, Any], ...], dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    records: list[dict[str, Any]] = field(default_factory=list)

    def value(self, metric: str, **attributes: Any) -> float:
        """The last value of a sum or gauge with exactly these attributes (dots written as two underscores)."""
        key = tuple(sorted((name.replace("__", "."), value) for name, value in attributes.items()))
        point = self.points[metric][key]
        return float(point["asDouble"]) if "asDouble" in point else int(point["asInt"])


@dataclass
class Run:
    """One run: what it printed, what the ranks computed, and, if it was watched, what was recorded."""

    stdout: str
    stderr: str
    results: list[dict[str, Any]]
    processes: list[Process]
    #: Its data directory.
    data: Path


def read(run: SeededRun) -> Run:
    """Read what the processes of a run recorded."""
    return Run(run.stdout, run.stderr, run.results, read_store(run.data), run.data)


def read_store(directory: Path) -> list[Process]:
    processes = []
    for manifest in directory.glob("*/*/manifest.json"):
        content = json.loads(manifest.read_text())
        process = Process(content["rank"], content)
        for file in sorted(manifest.parent.glob("*.jsonl")):
            for line in file.read_text().splitlines():
                _read(process, json.loads(line))
        processes.append(process)
    return sorted(processes, key=lambda process: process.rank)


def _read(process: Process, request: dict[str, Any]) -> None:
    for kind in ("resourceSpans", "resourceMetrics", "resourceLogs"):
        for resource in request.get(kind, []):
            process.resource.update(attributes(resource["resource"]))
            for scope in resource.get("scopeSpans", []):
                process.spans += scope["spans"]
            for scope in resource.get("scopeLogs", []):
                process.records += scope["logRecords"]
            for scope in resource.get("scopeMetrics", []):
                for metric in scope["metrics"]:
                    _read_metric(process, metric)


def _read_metric(process: Process, metric: dict[str, Any]) -> None:
    data = metric.get("sum") or metric.get("gauge") or metric.get("histogram")
    for point in data["dataPoints"]:
        process.points[metric["name"]][tuple(sorted(attributes(point).items()))] = point


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: plain(entry["value"]) for entry in item.get("attributes", [])}


def plain(value: dict[str, Any]) -> Any:
    """The Python value of an OTLP JSON value."""
    if not value:
        return None
    [(kind, content)] = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "doubleValue":
        return float(content)
    if kind == "kvlistValue":
        return {entry["key"]: plain(entry["value"]) for entry in content["values"]}
    return content
