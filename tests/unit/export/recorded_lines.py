"""Runs of a few lines of OTLP JSON, as a process writes them; times in ms after a fixed moment."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BEGAN = 1_780_000_000_000_000_000
MS = 1_000_000


def value(given: Any) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given if math.isfinite(given) else str(given)}
    if isinstance(given, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(item)} for key, item in given.items()]}}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(item) for item in given]}}
    return {"stringValue": given}


def attributes(given: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(item)} for key, item in given.items()]


@dataclass
class Lines:
    """What one process of ``run`` wrote."""

    run: Path
    rank: int | None = 0
    role: str = "trainer"
    resource: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"node-{self.role}-{self.rank}"
        self.folder = self.run / self.name
        self.folder.mkdir(parents=True)
        self.spans: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.metrics: list[dict[str, Any]] = []

    def span(
        self,
        name: str,
        start: float,
        stop: float,
        span_id: str,
        parent: str = "",
        trace: str = "t1",
        links: tuple[tuple[str, str], ...] = (),
        **given: Any,
    ) -> None:
        span = {
            "traceId": trace,
            "spanId": span_id,
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(at(start)),
            "endTimeUnixNano": str(at(stop)),
            "attributes": attributes({key.replace("__", "."): item for key, item in given.items()}),
            "links": [{"traceId": linked, "spanId": identity} for linked, identity in links],
        }
        self.spans.append(span)

    def log(self, event: str, time: float, body: Any, severity: int = 9, **given: Any) -> None:
        named = {key.replace("__", "."): item for key, item in given.items()}
        self.logs.append(
            {
                "eventName": event,
                "timeUnixNano": str(at(time)),
                "severityNumber": severity,
                "body": value(body),
                "attributes": attributes(named),
            }
        )

    def gauge(self, metric: str, time: float, number: Any, **given: Any) -> None:
        point = {"timeUnixNano": str(at(time)), "asDouble": number, "attributes": attributes(given)}
        self.metrics.append({"name": metric, "gauge": {"dataPoints": [point]}})

    def write(self) -> Path:
        identity = {"service.name": "job", "service.instance.id": self.name, "rl.run.id": self.run.name}
        identity |= {"rl.role": self.role, "host.name": "node", "process.pid": 7, **self.resource}
        if self.rank is not None:
            identity |= {"rl.rank": self.rank, "rl.world_size": 2}
        resource = {"attributes": attributes(identity)}
        for signal, root, scope, kind in (
            ("traces", "resourceSpans", "scopeSpans", "spans"),
            ("logs", "resourceLogs", "scopeLogs", "logRecords"),
            ("metrics", "resourceMetrics", "scopeMetrics", "metrics"),
        ):
            records = {"spans": self.spans, "logRecords": self.logs, "metrics": self.metrics}[kind]
            scoped = [{"scope": {"name": "otel_rl.test"}, kind: records}]
            line = json.dumps({root: [{"resource": resource, scope: scoped}]})
            (self.folder / f"{signal}-0001.jsonl").write_text(line + "\n")
        manifest = {"format": "otel-rl/1", "run_id": self.run.name, "rank": self.rank, "clean_exit": True}
        (self.folder / "manifest.json").write_text(
            json.dumps({**manifest, "started_unix_nano": BEGAN, "ended_unix_nano": at(10_000)})
        )
        return self.run


def at(milliseconds: float) -> int:
    """The moment in ns since the epoch."""
    return BEGAN + int(milliseconds * MS)
