"""The modules of `otel_rl.semconv` that are written from the registry."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from instrumentation.registry.model import Item, Registry, Signal, annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEADER = "generated; edit instrumentation/registry and run `make generate`"
LINE_LENGTH = "120"
# Lists of keys by the annotation that puts an attribute there.
_KEY_LISTS = {
    "CORRELATION": ("correlation", "Attributes that any span or log record may carry, copied from baggage"),
    "CONTENT": ("content", "Attributes that hold what users wrote or models said, captured on request only"),
    "IDENTIFIERS": ("identifier", "Attributes without a bound on their values: never on a metric"),
}


def modules(registry: Registry) -> dict[str, str]:
    """Return the text of each module by its file name."""
    sources = {
        "__init__.py": _package(registry),
        "attributes.py": _attributes(registry),
        "metrics.py": _metrics(registry),
        "spans.py": _signals("Spans", "SpanDefinition", registry.spans, _span),
        "events.py": _signals("Events", "EventDefinition", registry.events, _event),
        "entities.py": _signals("Entities", "EntityDefinition", registry.entities, _entity),
    }
    return {name: _formatted(source) for name, source in sources.items()}


def constant(name: str) -> str:
    """Return the name of the constant for a key: upper case, dots and dashes as underscores."""
    return name.upper().replace(".", "_").replace("-", "_")


def values_class(key: str) -> str:
    """Return the name of the class that holds the values of an enumerated attribute."""
    return "".join(part.capitalize() for part in key.replace(".", "_").split("_")) + "Values"


def _package(registry: Registry) -> str:
    renamed = ", ".join(f"{rename.old!r}: {rename.new!r}" for rename in registry.renames)
    return f"""{_opening("Names, units and buckets of every signal")}
from types import MappingProxyType
from typing import Final

SCHEMA_URL: Final = {registry.schema_url!r}
RENAMED_ATTRIBUTES: Final = MappingProxyType({{{renamed}}})
{_docstring("Former names of attributes, each with the one that took its place")}
"""


def _attributes(registry: Registry) -> str:
    lines = [
        _opening("Attribute keys and values", "# ruff: noqa: S105 - a key with the word token is no password"),
        "from types import MappingProxyType",
        "from typing import Final",
        "",
    ]
    for key, item in registry.attributes.items():
        lines += [f"{constant(key)}: Final = {key!r}", _docstring(item["brief"]), ""]
    for key, item in registry.attributes.items():
        if isinstance(item["type"], dict):
            lines += _values(key, item)
    for name, (flag, brief) in _KEY_LISTS.items():
        members = ", ".join(constant(key) for key in registry.annotated(flag))
        lines += [f"{name}: Final[tuple[str, ...]] = ({members},)", _docstring(brief), ""]
    budgets = [
        f"{constant(key)}: {annotation(registry.attributes[key], 'cardinality')},"
        for key in registry.annotated("cardinality")
    ]
    lines += ["CARDINALITY: Final = MappingProxyType({", *budgets, "})"]
    return "\n".join([*lines, _docstring("Most values of an attribute that a metric may carry in one process")]) + "\n"


def _values(key: str, item: Item) -> list[str]:
    lines = [f"class {values_class(key)}:", "    " + _docstring(f"Known values of `{key}`."), ""]
    for member in item["type"]["members"]:
        lines += [f"    {constant(member['id'])}: Final = {member['value']!r}", "    " + _docstring(member["brief"])]
    return [*lines, "", ""]


def _signals(
    title: str, definition: str, signals: Sequence[Signal], arguments: Callable[[Signal], dict[str, str]]
) -> str:
    imported = "attributes, definitions" if any(signal.uses for signal in signals) else "definitions"
    lines = [_opening(title), "from typing import Final", "", f"from otel_rl.semconv import {imported}", ""]
    for signal in signals:
        written = ", ".join(f"{name}={value}" for name, value in arguments(signal).items())
        lines.append(f"{constant(signal.name)}: Final = definitions.{definition}({written})")
    return "\n".join(lines) + "\n"


def _opening(title: str, remark: str = "") -> str:
    return f'''"""{title}: {HEADER}."""\n{remark}\nfrom __future__ import annotations\n'''


def _metrics(registry: Registry) -> str:
    ours = [signal.name for signal in registry.metrics if annotation(signal.item, "self_telemetry")]
    names = ", ".join(f"{constant(name)}.name" for name in ours)
    return (
        _signals("Metrics", "MetricDefinition", registry.metrics, _metric)
        + f"SELF_TELEMETRY: Final = frozenset({{{names}}})\n"
        + _docstring("Names of the metrics that otel-rl keeps about itself")
    )


def _metric(signal: Signal) -> dict[str, str]:
    boundaries = annotation(signal.item, "boundaries")
    return {
        "name": repr(signal.name),
        "instrument": repr(signal.item["instrument"]),
        "unit": repr(signal.item["unit"]),
        "description": repr(signal.item["brief"]),
        "boundaries": repr(tuple(float(boundary) for boundary in boundaries)) if boundaries else "None",
        "attributes": _tuple(signal.keys),
    }


def _span(signal: Signal) -> dict[str, str]:
    return {
        "type": repr(signal.name),
        "kind": repr(signal.item["kind"]),
        "description": repr(signal.item["brief"]),
        "attributes": _tuple(signal.keys),
    }


def _event(signal: Signal) -> dict[str, str]:
    return {"name": repr(signal.name), "description": repr(signal.item["brief"]), "attributes": _tuple(signal.keys)}


def _entity(signal: Signal) -> dict[str, str]:
    identity = tuple(use.key for use in signal.identity)
    return {
        "type": repr(signal.name),
        "description": repr(signal.item["brief"]),
        "identity": _tuple(identity),
        "attributes": _tuple(signal.keys),
    }


def _tuple(keys: tuple[str, ...]) -> str:
    return "(" + "".join(f"attributes.{constant(key)}, " for key in keys) + ")"


def _docstring(text: str) -> str:
    return f'"""{text.rstrip(".")}."""'


def _formatted(source: str) -> str:
    # The repository's own ruff settings must not decide here: the text must come out the same wherever it is generated.
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", LINE_LENGTH, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, timeout=60).stdout
