"""Items with a secret in every place that an item has, and what is to come out of the collector."""

from __future__ import annotations

import re
import secrets
import string
import time
from typing import Any

from otlp import TRACE_ID, value

MASK = "<mask>"
_MASKS = re.compile(r"\[redacted(:[a-z0-9_.-]+){0,2}\]")
NOW = str(time.time_ns())


def made_up_secret() -> str:
    """Return something that looks like an access token of a code hosting site, new each time."""
    return "gh" + "p_" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(36))


def masked(item: Any, secret: str) -> Any:
    """Return the item with the secret and with every mask replaced by MASK: what in and out have in common."""
    if isinstance(item, dict):
        return {key: masked(each, secret) for key, each in item.items()}
    if isinstance(item, list):
        return [masked(each, secret) for each in item]
    return _MASKS.sub(MASK, item.replace(secret, MASK)) if isinstance(item, str) else item


def attribute_places(secret: str) -> dict[str, dict[str, Any]]:
    """Return attributes by the place of the secret in them."""
    text = f"it used {secret} twice"
    return {
        "value": {"note": text, "count": 3, "share": 0.5, "done": True},
        "key": {f"note {secret}": 7},
        "nested-value": {"outer": {"inner": {"note": text, "count": 3}}},
        "nested-key": {"outer": {f"note {secret}": [1, 2]}},
        "list": {"notes": [1, text, {"note": text}]},
    }


def spans(secret: str) -> dict[str, dict[str, Any]]:
    """Return resource groups of one span each, by the place of the secret."""
    text = f"it used {secret} twice"
    link = {"traceId": TRACE_ID, "spanId": "00f067aa0ba902b7"}
    places: dict[str, dict[str, Any]] = {
        "span-name": {"name": text},
        "trace-state": {"traceState": f"vendor={secret}"},
        "event-name": {"events": [{"timeUnixNano": NOW, "name": text}]},
        "link-trace-state": {"links": [{**link, "traceState": f"vendor={secret}"}]},
        "status": {"status": {"message": f"OSError: {text}", "code": 2}},
        "stack": {
            "events": [
                {
                    "timeUnixNano": NOW,
                    "name": "exception",
                    "attributes": value(
                        {"exception.stacktrace": f'  File "/{secret}/a.py", line 1, in main\n'}, "attributes"
                    ),
                }
            ]
        },
    }
    for name, plain in attribute_places(secret).items():
        attributes = value(plain, "attributes")
        places[f"span-{name}"] = {"attributes": attributes}
        places[f"event-{name}"] = {"events": [{"timeUnixNano": NOW, "name": "said", "attributes": attributes}]}
        places[f"link-{name}"] = {"links": [{**link, "attributes": attributes}]}
    groups = {name: _spans([_span(fields)]) for name, fields in places.items()}
    for name, plain in attribute_places(secret).items():
        groups[f"resource-{name}"] = _spans([_span({})], resource=plain)
        groups[f"scope-{name}"] = _spans([_span({})], scope={"name": "test", "attributes": value(plain, "attributes")})
    groups["entity"] = _with_entity(_spans([_span({})]), secret)
    groups["scope-name"] = _spans([_span({})], scope={"name": text, "version": secret})
    return groups


def records(secret: str) -> dict[str, dict[str, Any]]:
    """Return resource groups of one log record each, by the place of the secret."""
    text = f"it used {secret} twice"
    places: dict[str, dict[str, Any]] = {
        "body": {"body": value(text)},
        "body-list": {"body": value([text, 1])},
        "event-name": {"eventName": text},
        "severity-text": {"severityText": text},
    }
    for name, plain in attribute_places(secret).items():
        places[f"body-{name}"] = {"body": value(plain)}
        places[f"attributes-{name}"] = {"attributes": value(plain, "attributes")}
    groups = {name: _records([_record(fields)]) for name, fields in places.items()}
    for name, plain in attribute_places(secret).items():
        groups[f"resource-{name}"] = _records([_record({})], resource=plain)
    groups["entity"] = _with_entity(_records([_record({})]), secret)
    return groups


def metrics(secret: str) -> dict[str, dict[str, Any]]:
    """Return resource groups of one metric each, by the place of the secret."""
    text = f"it used {secret} twice"
    point = {"timeUnixNano": NOW, "startTimeUnixNano": NOW}
    number = {**point, "asDouble": 0.5}
    buckets = {**point, "count": "1", "sum": 1.5, "bucketCounts": ["0", "1"], "explicitBounds": [1.0]}
    groups = {"description": _metrics({"description": text, "gauge": {"dataPoints": [number]}})}
    for name, plain in attribute_places(secret).items():
        with_attributes = {"attributes": value(plain, "attributes")}
        exemplar = {"timeUnixNano": NOW, "asDouble": 0.5, "filteredAttributes": with_attributes["attributes"]}
        shapes: dict[str, dict[str, Any]] = {
            "gauge": {"gauge": {"dataPoints": [{**number, **with_attributes}]}},
            "sum": {"sum": {"dataPoints": [{**number, **with_attributes}], "aggregationTemporality": 2}},
            "histogram": {"histogram": {"dataPoints": [{**buckets, **with_attributes}], "aggregationTemporality": 2}},
            "summary": {"summary": {"dataPoints": [{**point, "count": "1", "sum": 1.5, **with_attributes}]}},
            "exemplar": {
                "histogram": {"dataPoints": [{**buckets, "exemplars": [exemplar]}], "aggregationTemporality": 2}
            },
        }
        groups |= {f"{shape}-{name}": _metrics(fields) for shape, fields in shapes.items()}
        groups[f"resource-{name}"] = _metrics({"gauge": {"dataPoints": [number]}}, resource=plain)
    groups["unit"] = _metrics({"unit": secret, "gauge": {"dataPoints": [number]}})
    groups["entity"] = _with_entity(_metrics({"gauge": {"dataPoints": [number]}}), secret)
    return groups


def _with_entity(group: dict[str, Any], secret: str) -> dict[str, Any]:
    """Let the resource of a group name an entity."""
    text = f"it used {secret} twice"
    group["resource"]["entityRefs"] = [
        {"schemaUrl": f"https://{secret}", "type": text, "idKeys": [text], "descriptionKeys": [text]}
    ]
    return group


def _span(fields: dict[str, Any]) -> dict[str, Any]:
    times = {"startTimeUnixNano": NOW, "endTimeUnixNano": NOW}
    return {"traceId": TRACE_ID, "spanId": secrets.token_hex(8), "name": "call", "kind": 1, **times, **fields}


def _record(fields: dict[str, Any]) -> dict[str, Any]:
    return {"timeUnixNano": NOW, "observedTimeUnixNano": NOW, **fields}


def _resource(attributes: dict[str, Any] | None) -> dict[str, Any]:
    return {"attributes": value({"service.name": "train", **(attributes or {})}, "attributes")}


def _spans(items: list[Any], resource: Any = None, scope: Any = None) -> dict[str, Any]:
    return {"resource": _resource(resource), "scopeSpans": [{"scope": scope or {"name": "test"}, "spans": items}]}


def _records(items: list[Any], resource: Any = None) -> dict[str, Any]:
    return {"resource": _resource(resource), "scopeLogs": [{"scope": {"name": "test"}, "logRecords": items}]}


def _metrics(fields: dict[str, Any], resource: Any = None) -> dict[str, Any]:
    metric = {"name": "rl.train.loss", "unit": "1", **fields}
    return {"resource": _resource(resource), "scopeMetrics": [{"scope": {"name": "test"}, "metrics": [metric]}]}


def content(prompt: str) -> dict[str, list[dict[str, Any]]]:
    """Return resource groups of every signal with a prompt under a content key in every kind of attributes."""
    plain = {
        "input.value": prompt,
        "request": {"messages": [{"content": prompt}], "kept": 1},
        "list": [{"prompt": prompt, "kept": 1}],
        "json": f'{{"kept": 1, "messages": ["{prompt}"]}}',
    }
    attributes = value(plain, "attributes")
    link = {"traceId": TRACE_ID, "spanId": "00f067aa0ba902b7", "attributes": attributes}
    event = {"timeUnixNano": NOW, "name": "said", "attributes": attributes}
    span = _span({"attributes": attributes, "events": [event], "links": [link]})
    exemplar = {"timeUnixNano": NOW, "asDouble": 0.5, "filteredAttributes": attributes}
    point = {"timeUnixNano": NOW, "asDouble": 0.5, "attributes": attributes, "exemplars": [exemplar]}
    bodies: list[Any] = [{"attributes": attributes, "body": value(plain)}, {"body": value([plain, [plain]])}]
    return {
        "traces": [_spans([span], resource=plain, scope={"name": "test", "attributes": attributes})],
        "logs": [_records([_record(fields) for fields in bodies], resource=plain)],
        "metrics": [_metrics({"gauge": {"dataPoints": [point]}}, resource=plain)],
    }
