"""Jobs of real ranks on gloo of which some are late: run under `opentelemetry-instrument`, and what they recorded."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from otel_rl.cli import main

SCRIPTS = Path(sys.executable).parent


def run(folder: Path, ranks: int, program: Path | str, *arguments: object, **variables: str) -> None:
    """Run ``program`` on so many ranks, in ``folder``, as the run ``run``; ``variables`` are of the environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    torchrun = [SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", *torchrun, program, *map(str, arguments)],
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING": "on",
            "OTEL_RL_RING_DIR": str(folder),
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
            "OMP_NUM_THREADS": "1",
            **variables,
        },
        check=True,
        timeout=300,
    )


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the attributes of each event of late ranks, in order; its name is ``event``."""
    records = _items(folder, "logs", "resourceLogs", "scopeLogs", "logRecords")
    return [
        {"event": record["eventName"], **_attributes(record)}
        for record in records
        if record.get("eventName", "").startswith("rl.straggler")
    ]


def gauge(folder: Path, name: str) -> list[tuple[dict[str, Any], float]]:
    """Return the attributes and values of a gauge, in order."""
    points = [
        point
        for metric in _items(folder, "metrics", "resourceMetrics", "scopeMetrics", "metrics")
        if metric["name"] == name
        for point in metric["gauge"]["dataPoints"]
    ]
    return [(_attributes(point), point["asDouble"]) for point in points if "asDouble" in point]


def page(folder: Path) -> str:
    """Return the report of the run, its words one space apart."""
    assert main(["report", str(folder / "otel-rl" / "run"), "-o", str(folder / "page.html")]) == 0
    return " ".join((folder / "page.html").read_text(encoding="utf-8").split())


def late_ranks(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the findings of the report on late ranks, by rank."""
    with redirect_stdout(io.StringIO()) as out:
        assert main(["report", str(folder / "otel-rl" / "run"), "--json"]) == 0
    findings = json.loads(out.getvalue())["findings"]
    late = [finding for finding in findings if finding["code"] == "late_rank"]
    by_rank = {finding["ranks"][0]: finding for finding in late}
    assert len(by_rank) == len(late)
    return by_rank


def _items(folder: Path, signal: str, resources: str, scopes: str, items: str) -> list[dict[str, Any]]:
    files = sorted((folder / "otel-rl").glob(f"*/*/{signal}*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [
        item for line in lines for resource in line[resources] for scope in resource[scopes] for item in scope[items]
    ]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: _plain(next(iter(one["value"].values()))) for one in item.get("attributes", [])}


def _plain(value: Any) -> Any:
    return [int(one["intValue"]) for one in value.get("values", [])] if isinstance(value, dict) else value
