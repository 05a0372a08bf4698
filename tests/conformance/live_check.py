"""Compare recorded telemetry with the registry.

`check(directory)` reads every OTLP JSON line below a directory, of the file store or of a collector's file output, and
judges what the scopes `otel_rl.*` reported; what other instrumentations report is theirs. From a shell:
`PYTHONPATH=tests python -m conformance.live_check DIRECTORY`.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance import otlp

from instrumentation.registry import model

OUR_SCOPES = "otel_rl."
OUR_NAMESPACES = ("rl.", "torch.distributed.")
# Through the producer API programs report events of their own names, outside the registry's namespaces.
PRODUCER_SCOPE = "otel_rl.api"
RESERVED_NAMESPACES = (*OUR_NAMESPACES, "gen_ai.", "mcp.", "hw.")
# The collector copies a record's event name there, for Loki, which drops the field.
COPIED_EVENT_NAME = "event.name"
KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(frozen=True, order=True)
class Finding:
    """One departure from the registry: file and line, the signal's name, and what is wrong."""

    place: str
    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.message}"


@dataclass
class Checker:
    """Judges scope by scope, and at the end what only the whole shows: how many values an attribute took."""

    registry: model.Registry
    series: dict[tuple[str, str, object], set[object]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.correlation = frozenset(self.registry.annotated("correlation"))
        self.metrics = {signal.name: signal for signal in self.registry.metrics}
        self.events = {signal.name: signal for signal in self.registry.events}
        self.resource_keys = {use.key for entity in self.registry.entities for use in (*entity.identity, *entity.uses)}

    def scope(self, scope: otlp.Scope) -> Iterator[tuple[str, str]]:
        """Name and message of each fault of one scope."""
        if scope.schema_url != self.registry.schema_url:
            yield scope.name, f"schema URL is {scope.schema_url!r}, not {self.registry.schema_url!r}"
        for key, value in scope.resource.items():
            if key.startswith(OUR_NAMESPACES):
                yield from (("resource", fault) for fault in self._value_faults(key, value, self.resource_keys))
        judge = {"spans": self._span, "metrics": self._metric, "logRecords": self._log_record}[scope.kind]
        for item in scope.items:
            yield from ((item.get("name") or item.get("eventName") or "record", fault) for fault in judge(item, scope))

    def budgets(self) -> Iterator[tuple[str, str]]:
        """Metric attributes that took more values in a process than their budget."""
        for (metric, key, _), values in self.series.items():
            budget = model.annotation(self.registry.attributes[key], "cardinality")
            if budget and len(values) > budget:
                yield metric, f"attribute {key} took {len(values)} values in one process, its budget is {budget}"

    def _span(self, span: otlp.Json, scope: otlp.Scope) -> Iterator[str]:
        attributes = otlp.attributes(span)
        candidates = [signal for signal in self.registry.spans if span["name"] in _span_names(signal, attributes)]
        if not candidates:
            yield "no span of the registry has this name"
            return
        # Two shapes may share a name: the one that fits best is meant.
        yield from min((list(self._shape_faults(signal, span, attributes)) for signal in candidates), key=len)
        for event in span.get("events", ()):
            yield from (
                f"event {event['name']}: {fault}" for fault in self._event(event["name"], otlp.attributes(event))
            )

    def _shape_faults(
        self, signal: model.Signal, span: otlp.Json, attributes: Mapping[str, otlp.Value]
    ) -> Iterator[str]:
        kind = KINDS.get(span.get("kind", 0), "unspecified")
        if kind != signal.item["kind"]:
            yield f"kind is {kind}, not {signal.item['kind']}"
        yield from self._attribute_faults(signal, attributes, self.correlation)

    def _log_record(self, record: otlp.Json, scope: otlp.Scope) -> Iterator[str]:
        attributes = otlp.attributes(record)
        copied = attributes.pop(COPIED_EVENT_NAME, None)
        name = record.get("eventName", "")
        if copied is not None and name and copied.value != name:
            yield f"{COPIED_EVENT_NAME} is {copied.value!r}"
        name = name or str(copied.value if copied else "")
        if scope.name != PRODUCER_SCOPE or not name or name.startswith(RESERVED_NAMESPACES):
            yield from self._event(name, attributes)

    def _event(self, name: str, attributes: Mapping[str, otlp.Value]) -> Iterator[str]:
        if name not in self.events:
            yield f"event name {name!r} is not in the registry" if name else "has no event name"
            return
        yield from self._attribute_faults(self.events[name], attributes, self.correlation)

    def _metric(self, metric: otlp.Json, scope: otlp.Scope) -> Iterator[str]:
        signal = self.metrics.get(metric["name"])
        if signal is None:
            yield "is not in the registry"
            return
        if metric.get("unit", "") != signal.item["unit"]:
            yield f"unit is {metric.get('unit', '')!r}, not {signal.item['unit']!r}"
        instrument, points = _instrument(metric)
        if instrument != signal.item["instrument"]:
            yield f"instrument is {instrument}, not {signal.item['instrument']}"
        for point in points:
            attributes = otlp.attributes(point)
            yield from self._attribute_faults(signal, attributes, frozenset())
            yield from _bucket_faults(signal, point)
            process = scope.resource.get("service.instance.id", otlp.Value("string", scope.place)).value
            for key in signal.keys:
                if key in attributes:
                    self.series[signal.name, key, process].add(attributes[key].value)

    def _attribute_faults(
        self, signal: model.Signal, attributes: Mapping[str, otlp.Value], also: frozenset[str]
    ) -> Iterator[str]:
        allowed = {*signal.keys, *also}
        for key, value in attributes.items():
            yield from self._value_faults(key, value, allowed)
        for use in signal.uses:
            if use.requirement == "required" and use.key not in attributes:
                yield f"lacks required attribute {use.key}"

    def _value_faults(self, key: str, value: otlp.Value, allowed: set[str]) -> Iterator[str]:
        template = key.rpartition(".")[0]
        if template in allowed and self.registry.attributes[template]["type"] == f"template[{value.type}]":
            return
        if key not in allowed:
            yield f"carries attribute {key}, which the registry does not have there"
            return
        definition = self.registry.attributes[key]
        declared = definition["type"]
        if isinstance(declared, Mapping):
            known = [member["value"] for member in declared["members"]]
            # Upstream's enumerations are open to new providers and operations; ours are complete unless they say so.
            is_open = model.annotation(definition, "upstream") or model.annotation(definition, "open")
            if value.value not in known and not is_open:
                yield f"attribute {key} has value {value.value!r}, which the registry does not list"
        elif declared not in ("any", value.type) and not (value.type == "[]" and declared.endswith("[]")):
            yield f"attribute {key} is of type {value.type}, not {declared}"


def check(directory: Path) -> list[Finding]:
    """Every departure from the registry in the telemetry below `directory`, each fault of a place once."""
    checker = Checker(model.resolve(model.read()))
    findings = set()
    for place, line in otlp.lines(directory):
        if line is None:
            findings.add(Finding(place, "line", "is no JSON object"))
            continue
        for scope in otlp.scopes(place, line):
            if scope.name.startswith(OUR_SCOPES):
                findings |= {Finding(place, name, message) for name, message in checker.scope(scope)}
    findings |= {Finding(str(directory), name, message) for name, message in checker.budgets()}
    return sorted(findings)


def _span_names(signal: model.Signal, attributes: Mapping[str, otlp.Value]) -> list[str]:
    """The names that the registry's patterns give; a part whose attribute is not known is left out."""

    def written(match: re.Match[str]) -> str:
        return str(attributes[match[1]].value) if match[1] in attributes else ""

    patterns = signal.item["name"]["note"].split(" | ")
    return [re.sub(r"\{([a-z_.]+)\}", written, pattern).strip() for pattern in patterns]


def _instrument(metric: otlp.Json) -> tuple[str, list[otlp.Json]]:
    if "sum" in metric:
        return ("counter" if metric["sum"].get("isMonotonic") else "updowncounter"), metric["sum"].get("dataPoints", [])
    for kind in ("gauge", "histogram"):
        if kind in metric:
            return kind, metric[kind].get("dataPoints", [])
    return "of another kind", []


def _bucket_faults(signal: model.Signal, point: otlp.Json) -> Iterator[str]:
    boundaries = model.annotation(signal.item, "boundaries")
    if boundaries and "explicitBounds" in point and point["explicitBounds"] != boundaries:
        yield f"buckets are {point['explicitBounds']}, not {boundaries}"


def main() -> int:
    """Print the findings for the directory given; returns the exit status."""
    findings = check(Path(sys.argv[1]))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
