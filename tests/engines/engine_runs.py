"""Starting programs with a real vLLM on the CPU, and reading what they left in the file store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
#: Of vLLM: nothing is downloaded or reported, and a small cache and no compilation, which take long on a CPU.
VLLM = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass
class Store:
    """What the processes of one run recorded."""

    spans: list[dict[str, Any]] = field(default_factory=list)
    #: metric -> points, of all exports and processes
    points: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    #: log records, in the order of their files
    events: list[dict[str, Any]] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Spans of this name, by their start."""
        found = [span for span in self.spans if span["name"] == name]
        return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))

    def operations(self) -> list[str]:
        """Operations on engines, in their order."""
        return [span["attributes"]["rl.sync.operation"] for span in self.named("rl.sync")]

    def last(self, metric: str, **attributes: Any) -> dict[str, Any]:
        """The last point of a metric that has at least these attributes (dots written as two underscores)."""
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        found = [point for point in self.points[metric] if wanted.items() <= point["attributes"].items()]
        assert found, f"no point of {metric} with {wanted}: {self.points[metric]}"
        return max(found, key=lambda point: int(point["timeUnixNano"]))


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an OTLP JSON item as plain values."""
    return {entry["key"]: _plain(entry["value"]) for entry in item.get("attributes", ())}


def _plain(value: dict[str, Any]) -> Any:
    [(kind, content)] = value.items()
    if kind == "intValue":
        return int(content)
    return [_plain(one) for one in content.get("values", ())] if kind == "arrayValue" else content


def read(directory: Path) -> Store:
    """What lies below a data directory."""
    store = Store()
    store.manifests = [json.loads(path.read_text()) for path in sorted(directory.glob("*/*/manifest.json"))]
    for line in _lines(directory, "traces"):
        for span in (one for r in line["resourceSpans"] for scope in r["scopeSpans"] for one in scope["spans"]):
            store.spans.append({**span, "attributes": attributes(span)})
    for line in _lines(directory, "logs"):
        for event in (one for r in line["resourceLogs"] for scope in r["scopeLogs"] for one in scope["logRecords"]):
            store.events.append({"eventName": "", **event, "attributes": attributes(event)})
    for line in _lines(directory, "metrics"):
        for metric in (one for r in line["resourceMetrics"] for scope in r["scopeMetrics"] for one in scope["metrics"]):
            data = next(value for value in metric.values() if isinstance(value, dict))
            for point in data.get("dataPoints", ()):
                store.points[metric["name"]].append({**point, "attributes": attributes(point)})
    return store


def _lines(directory: Path, signal: str) -> Iterable[dict[str, Any]]:
    for path in sorted(directory.glob(f"*/*/{signal}-*.jsonl")):
        yield from (json.loads(line) for line in path.read_text().splitlines())


def environment(directory: Path, **variables: str) -> dict[str, str]:
    """The environment of a program: ours without what tells OpenTelemetry or vLLM anything."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "VLLM_"))}
    own = {"OTEL_RL_DATA_DIR": str(directory / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    return kept | VLLM | own | {"PATH": f"{SCRIPTS}:{kept['PATH']}"} | variables


@dataclass
class Run:
    """One program: what it printed, its last line of JSON, and what was recorded."""

    stdout: str
    stderr: str
    result: Any
    store: Store


def run(program: str, directory: Path, *arguments: str, watched: bool, **variables: str) -> Run:
    """Run a program of this folder, plain or under `opentelemetry-instrument`."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / program), *arguments]
    if watched:
        command.insert(0, str(SCRIPTS / "opentelemetry-instrument"))
    done = subprocess.run(
        command,
        env=environment(directory, **variables),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    # vLLM may still say on stdout that it ends.
    [*_, result] = (line for line in done.stdout.splitlines() if line.startswith(("[", "{")))
    return Run(done.stdout, done.stderr, json.loads(result), read(directory / "data"))
