"""Programs on a real GPU, plain and under `opentelemetry-instrument`, and what the latter have recorded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).with_name("programs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip("needs a GPU with CUDA"))


class Recording:
    """What a program printed, and what it recorded in its folder."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.spans: list[dict[str, Any]] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.records: list[dict[str, Any]] = []
        for file in folder.rglob("*.jsonl"):
            for line in file.read_text().splitlines():
                self._read(json.loads(line))

    def _read(self, request: dict[str, Any]) -> None:
        for resource in request.get("resourceSpans", ()):
            self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        for resource in request.get("resourceLogs", ()):
            self.records += [record for scope in resource["scopeLogs"] for record in scope["logRecords"]]
        for resource in request.get("resourceMetrics", ()):
            for metric in (metric for scope in resource["scopeMetrics"] for metric in scope["metrics"]):
                (points,) = (kind["dataPoints"] for kind in metric.values() if isinstance(kind, dict))
                self.metrics.setdefault(metric["name"], []).extend(points)

    def numbers(self) -> list[int]:
        """The numbers of the steps, in order."""
        return sorted(
            int(one["value"]["intValue"])
            for span in self.spans
            if span["name"] == "rl.loop"
            for one in span["attributes"]
            if one["key"] == "rl.loop.iteration"
        )

    def columns(self, event: str, prefix: str) -> dict[str, list[Any]]:
        """Columns of the bodies of these events whose names begin with ``prefix``, joined."""
        found: dict[str, list[Any]] = {}
        for body in (
            record["body"] for record in self.records if record.get("eventName") == event and "body" in record
        ):
            for column in body.get("kvlistValue", {}).get("values", ()):
                if column["key"].startswith(prefix):
                    values = column["value"]["arrayValue"].get("values", ())
                    found.setdefault(column["key"].removeprefix(prefix), []).extend(
                        next(iter(value.values())) for value in values
                    )
        return found

    def values(self, event: str, attribute: str) -> list[Any]:
        """The values of an attribute of these events."""
        records = [record for record in self.records if record.get("eventName") == event]
        pairs = [pair for record in records for pair in record["attributes"] if pair["key"] == attribute]
        return [next(iter(pair["value"].values())) for pair in pairs]

    def largest(self, metric: str) -> float:
        """The largest value that a gauge or sum has had."""
        return max(float(point.get("asDouble", point.get("asInt", 0))) for point in self.metrics[metric])


@pytest.fixture
def run(tmp_path: Path):
    """Run a program of this folder; ``watched`` with us, and return what came of it."""

    def start(*command: str, watched: bool, expected: int = 0, **variables: str) -> Recording:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        folder = tmp_path / ("watched" if watched else "plain")
        folder.mkdir(exist_ok=True)
        environment |= {"OTEL_RL_DATA_DIR": str(folder / "data"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
        environment |= variables
        first = [str(shutil.which("opentelemetry-instrument"))] if watched else []
        done = subprocess.run(
            [*first, sys.executable, *command], cwd=PROGRAMS, env=environment, capture_output=True, text=True,
            check=False, timeout=400,
        )  # fmt: skip
        assert done.returncode == expected, done.stderr[-6000:]
        return Recording(done, folder)

    return start
