"""OTLP JSON lines as plain objects: values with their types, and the scopes with what they hold."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

_TYPES = {"stringValue": "string", "intValue": "int", "doubleValue": "double", "boolValue": "boolean"}
_CONTAINERS = {
    "resourceSpans": ("scopeSpans", "spans"),
    "resourceMetrics": ("scopeMetrics", "metrics"),
    "resourceLogs": ("scopeLogs", "logRecords"),
}


@dataclass(frozen=True)
class Value:
    """An attribute's value and its type in the registry's words; a map or a mixed list is `any`."""

    type: str
    value: object


@dataclass(frozen=True)
class Scope:
    """What one instrumentation scope reported of one signal in one line."""

    place: str
    name: str
    schema_url: str
    resource: Mapping[str, Value]
    kind: str
    items: list[Json]


def lines(directory: Path) -> Iterator[tuple[str, Json | None]]:
    """Every line of every store or collector file below a directory with its place; None for one that is no JSON."""
    for path in sorted(directory.rglob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            place = f"{path.relative_to(directory)}:{number}"
            try:
                content = json.loads(text)
            except ValueError:
                content = None
            yield place, content if isinstance(content, dict) else None


def scopes(place: str, line: Json) -> Iterator[Scope]:
    """The scopes of one line."""
    for container, (scope_list, item_list) in _CONTAINERS.items():
        for resource in line.get(container, ()):
            described = attributes(resource.get("resource", {}))
            for scope in resource.get(scope_list, ()):
                yield Scope(
                    place=place,
                    name=scope.get("scope", {}).get("name", ""),
                    schema_url=scope.get("schemaUrl", ""),
                    resource=described,
                    kind=item_list,
                    items=scope.get(item_list, []),
                )


def attributes(holder: Json) -> dict[str, Value]:
    """The attributes of a span, event, data point, log record or resource."""
    return {entry["key"]: _value(entry.get("value", {})) for entry in holder.get("attributes", ())}


def _value(value: Json) -> Value:
    [(kind, content)] = value.items() or [("", None)]
    if kind in _TYPES:
        return Value(_TYPES[kind], content)
    if kind == "arrayValue":
        elements = [_value(element) for element in content.get("values", ())]
        types = {element.type for element in elements}
        # An empty list is a list of whatever the registry says.
        name = f"{types.pop()}[]" if len(types) == 1 else ("[]" if not elements else "any")
        return Value(name, tuple(element.value for element in elements))
    return Value("any", content)
