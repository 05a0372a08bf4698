"""Checks that hold on any machine; the collector's own `validate` misses most of these problems."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks import components
from otel_rl.collector.parts.merge import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Problems = list[str]
"""Sentences, each with the reason and the fix."""


def problems(configuration: Mapping[str, Any]) -> Problems:
    """List all problems that break this configuration or make it behave differently from what it says."""
    return [
        *_types(configuration),
        *_references(configuration),
        *_one_sided(configuration),
        *_extensions(configuration),
    ]


def identifiers(configuration: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Map identifiers (``type/name``) to the components of one kind."""
    return dict(configuration.get(kind) or {})


def pipelines(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Map names to pipelines."""
    return {name: value or {} for name, value in ((configuration.get("service") or {}).get("pipelines") or {}).items()}


def values_of(value: Any, key: str) -> Iterator[str]:
    """Yield every string under this key, at any depth."""
    return (item for _, name, item in leaves(value) if name == key and isinstance(item, str))


def _lists_of(value: Any, key: str) -> Iterator[list[Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key and isinstance(item, list):
                yield item
            yield from _lists_of(item, key)


def _types(configuration: Mapping[str, Any]) -> Iterator[str]:
    built = components.built()
    for kind in components.KINDS:
        for identifier in identifiers(configuration, kind):
            name = identifier.partition("/")[0]
            present = built[kind].get(name)
            if present is None:
                yield f"{kind[:-1]} {identifier}: {_unknown(kind, name)}"
            elif present != name:
                yield f"{kind[:-1]} {identifier}: {name} is a former name of {present}; write {present}"


def _unknown(kind: str, name: str) -> str:
    instead = components.REMOVED.get(kind, {}).get(name)
    if instead:
        return f"otelcol-rl is built without {name}: {instead}"
    near = get_close_matches(name, components.built()[kind], 1)
    hint = f"did you mean {near[0]}?" if near else "add it to otelcol-builder/manifest.yaml and build again"
    return f"otelcol-rl is built without {name}; {hint}"


def _references(configuration: Mapping[str, Any]) -> Iterator[str]:
    connectors = identifiers(configuration, "connectors")
    for name, pipeline in pipelines(configuration).items():
        for kind in ("receivers", "processors", "exporters"):
            known = identifiers(configuration, kind) | (connectors if kind != "processors" else {})
            for identifier in pipeline.get(kind) or []:
                if identifier not in known:
                    yield f"pipeline {name} names {identifier}, but {kind} has no such entry; define it or correct it"
        for kind in ("receivers", "exporters"):
            if not pipeline.get(kind):
                yield f"pipeline {name} has no {kind}; add one or remove the pipeline"


def _one_sided(configuration: Mapping[str, Any]) -> Iterator[str]:
    used = pipelines(configuration).values()
    inputs = {identifier for pipeline in used for identifier in pipeline.get("receivers") or []}
    outputs = {identifier for pipeline in used for identifier in pipeline.get("exporters") or []}
    for connector in identifiers(configuration, "connectors"):
        if connector in outputs and connector not in inputs:
            yield f"connector {connector} is fed, but no pipeline receives from it; add a sink or a pipeline that does"
        if connector in inputs and connector not in outputs:
            yield f"connector {connector} is received from, but no pipeline exports to it; add it to one's exporters"


def _extensions(configuration: Mapping[str, Any]) -> Iterator[str]:
    defined = identifiers(configuration, "extensions")
    started = list((configuration.get("service") or {}).get("extensions") or [])
    for extension in started:
        if extension not in defined:
            yield f"service.extensions names {extension}, but extensions has no such entry; define it"
    for extension in defined:
        if extension not in started:
            yield f"extension {extension} is configured but not in service.extensions, so it does not start; add it"
    for kind in ("receivers", "processors", "connectors", "exporters"):
        for identifier, component in identifiers(configuration, kind).items():
            for extension in _wanted(component):
                if extension not in defined:
                    yield (
                        f"{kind[:-1]} {identifier} wants the extension {extension}, which no file defines; "
                        f"define it in extensions and in service.extensions"
                    )


def _wanted(component: Any) -> Iterator[str]:
    """Yield the extensions that a component references: queue storage, authenticators, server middleware."""
    yield from values_of(component, "storage")
    yield from values_of(component, "authenticator")
    for middlewares in _lists_of(component, "middlewares"):
        yield from values_of(middlewares, "id")
