"""OTLP JSON for tests: build it from plain Python values and read it back."""

from __future__ import annotations

import os
import time
from typing import Any

TRACE_ID = "5b8efff798038103d269b633813fc60c"
SECOND = 1_000_000_000


def value(plain: Any, shape: str = "value") -> Any:
    """Return the AnyValue of a Python value, or with shape "attributes" the key-value list of a dict."""
    if shape == "attributes":
        return [{"key": key, "value": value(item)} for key, item in plain.items()]
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": value(plain, "attributes")}}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(item) for item in plain]}}
    for kind, name in ((bool, "boolValue"), (float, "doubleValue"), (str, "stringValue")):
        if isinstance(plain, kind):
            return {name: plain}
    return {"intValue": str(plain)}


def plain_value(any_value: dict[str, Any]) -> Any:
    """Return the Python value of an AnyValue."""
    ((kind, content),) = any_value.items()
    if kind == "kvlistValue":
        return attributes({"attributes": content.get("values", [])})
    if kind == "arrayValue":
        return [plain_value(item) for item in content.get("values", [])]
    return int(content) if kind == "intValue" else content


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, event, record or data point as a dict."""
    return {pair["key"]: plain_value(pair["value"]) for pair in item.get("attributes", [])}


def span(
    name: str,
    attributes: dict[str, Any] | None = None,
    *,
    trace_id: str = TRACE_ID,
    parent: str = "",
    seconds: float = 0.1,
    status: str = "",
    error: bool = False,
    events: list[tuple[str, dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """Return a span that ended just now; a status message makes it an error."""
    end = time.time_ns()
    built: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": os.urandom(8).hex(),
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(end - int(seconds * SECOND)),
        "endTimeUnixNano": str(end),
        "attributes": value(attributes or {}, "attributes"),
        "events": [
            {"name": event, "timeUnixNano": str(end), "attributes": value(content, "attributes")}
            for event, content in events or []
        ],
    }
    if status or error:
        built["status"] = {"code": 2, "message": status}
    return built


def _resource(**attributes: Any) -> dict[str, Any]:
    return {"attributes": value({"service.name": "train", **attributes}, "attributes")}


def trace_resource(spans: list[dict[str, Any]], **resource: Any) -> dict[str, Any]:
    """Return the resource group of spans."""
    return {"resource": _resource(**resource), "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}]}


def log_resource(records: list[dict[str, Any]], **resource: Any) -> dict[str, Any]:
    """Return the resource group of log records, all of this moment."""
    now = str(time.time_ns())
    stamped = [{"timeUnixNano": now, "observedTimeUnixNano": now, **record} for record in records]
    return {"resource": _resource(**resource), "scopeLogs": [{"scope": {"name": "test"}, "logRecords": stamped}]}


def metric_resource(
    name: str, number: float, attributes: dict[str, Any] | None = None, **resource: Any
) -> dict[str, Any]:
    """Return the resource group of one gauge with one data point."""
    point = {
        "asDouble": number,
        "timeUnixNano": str(time.time_ns()),
        "attributes": value(attributes or {}, "attributes"),
    }
    metric = {"name": name, "unit": "1", "gauge": {"dataPoints": [point]}}
    return {"resource": _resource(**resource), "scopeMetrics": [{"scope": {"name": "test"}, "metrics": [metric]}]}
