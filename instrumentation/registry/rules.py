"""Checks of the registry as a whole: names, references, units, and what may be on a metric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from instrumentation.registry.model import SECTIONS, Document, Item, annotation, entries, references
from instrumentation.registry.problems import Problem
from instrumentation.registry.render_python import constant
from instrumentation.registry.units import is_unit

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z][a-z0-9]*(_[a-z0-9]+)*)+")
_OUR_NAMESPACES = ("rl.", "torch.distributed.")
_EXAMPLE_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "double": (int, float),
    "boolean": (bool,),
    # The value of each key below the template.
    "template[double]": (int, float),
}


def name_problems(documents: list[Document]) -> Iterator[Problem]:
    """Names that are malformed or taken, also when two differ but give the same constant.

    Attributes have names of their own; signals of every kind and attribute groups share theirs, as weaver demands.
    """
    attributes: dict[str, tuple[str, Document]] = {}
    others: dict[str, tuple[str, Document]] = {}
    for section, name_key in SECTIONS.items():
        taken = attributes if section == "attributes" else others
        for document, item in entries(documents, section):
            name = item[name_key]
            if not _NAME.fullmatch(name):
                yield Problem(
                    document.path, name, "must be lower-case words joined by '_', in namespaces joined by '.'"
                )
            if constant(name) in taken:
                other, first = taken[constant(name)]
                yield Problem(document.path, name, f"is already taken by {other} in {first.path.name}")
            taken.setdefault(constant(name), (name, document))


def attribute_problems(documents: list[Document]) -> Iterator[Problem]:
    """Attributes in a wrong namespace, with examples of another type, or with more values than their budget."""
    keys = [item["key"] for _, item in entries(documents, "attributes")]
    for document, item in entries(documents, "attributes"):
        key = item["key"]
        inside = next((other for other in keys if other.startswith(key + ".")), None)
        if inside is not None:
            yield Problem(document.path, key, f"is also the namespace of {inside}")
        if not key.startswith(_OUR_NAMESPACES) and not annotation(item, "upstream"):
            yield Problem(
                document.path, key, "is outside rl.* and torch.distributed.*: annotate where it comes from (upstream)"
            )
        for example in item["examples"]:
            if not _is_of_type(example, item["type"]):
                yield Problem(document.path, key, f"example {example!r} is not of type {_type_name(item)}")
        budget = annotation(item, "cardinality")
        if budget and isinstance(item["type"], Mapping) and len(item["type"]["members"]) > budget:
            yield Problem(document.path, key, f"has more values than its cardinality budget of {budget}")


def reference_problems(documents: list[Document]) -> Iterator[Problem]:
    """Return references that lead nowhere or in a circle, and attributes that a definition names twice."""
    attributes = {item["key"]: item for _, item in entries(documents, "attributes")}
    groups = {item["id"]: item for _, item in entries(documents, "attribute_groups")}
    for section in ("attribute_groups", "metrics", "spans", "events", "entities"):
        for document, item in entries(documents, section):
            name = item[SECTIONS[section]]
            keys: list[str] = []
            for message in _follow(references(item), attributes, groups, (name,), keys):
                yield Problem(document.path, name, message)
            for key in sorted({key for key in keys if keys.count(key) > 1}):
                yield Problem(document.path, name, f"names attribute {key} twice")


def metric_problems(documents: list[Document]) -> Iterator[Problem]:
    """Metrics with a unit that is none, wrong buckets, or an attribute that would make series without end."""
    attributes = {item["key"]: item for _, item in entries(documents, "attributes")}
    groups = {item["id"]: item for _, item in entries(documents, "attribute_groups")}
    for document, item in entries(documents, "metrics"):
        if not is_unit(item["unit"]):
            message = f"unit {item['unit']!r} is not one of the UCUM units in instrumentation/registry/units.py"
            yield Problem(document.path, item["name"], message)
        for message in _boundary_faults(item):
            yield Problem(document.path, item["name"], message)
        keys: list[str] = []
        list(_follow(references(item), attributes, groups, (), keys))
        for key in keys:
            if annotation(attributes[key], "identifier"):
                yield Problem(
                    document.path, item["name"], f"attribute {key} identifies single things: never on a metric"
                )
            elif not annotation(attributes[key], "cardinality"):
                yield Problem(
                    document.path, item["name"], f"attribute {key} has no cardinality budget (otel_rl.cardinality)"
                )


def _boundary_faults(item: Item) -> Iterator[str]:
    boundaries = annotation(item, "boundaries")
    if item["instrument"] != "histogram":
        if boundaries:
            yield "has boundaries but is no histogram"
    elif not boundaries:
        yield "is a histogram without boundaries (otel_rl.boundaries)"
    elif any(low >= high for low, high in pairwise(boundaries)):
        yield "boundaries must ascend"


def _follow(
    listed: list[Item],
    attributes: Mapping[str, Item],
    groups: Mapping[str, Item],
    path: tuple[str, ...],
    keys: list[str],
) -> Iterator[str]:
    """Say what is wrong with references, and collect in `keys` the attributes that they lead to."""
    for reference in listed:
        group = reference.get("ref_group")
        if group is None and reference["ref"] not in attributes:
            yield f"refers to attribute {reference['ref']}, which is not defined"
        elif group is None:
            keys.append(reference["ref"])
        elif group not in groups:
            yield f"refers to attribute group {group}, which is not defined"
        elif group in path:
            yield f"attribute groups refer to each other in a circle: {' > '.join((*path, group))}"
        else:
            yield from _follow(references(groups[group]), attributes, groups, (*path, group), keys)


def _is_of_type(example: object, declared: str | Item) -> bool:
    if isinstance(declared, Mapping):
        return isinstance(example, str)
    if declared == "any":
        return True
    if declared.endswith("[]"):
        return isinstance(example, list) and all(_is_of_type(element, declared[:-2]) for element in example)
    # bool is a subclass of int, and `examples: [true]` of a number is a mistake.
    return isinstance(example, _EXAMPLE_TYPES[declared]) and (declared == "boolean" or not isinstance(example, bool))


def _type_name(item: Item) -> str:
    return "string (enumerated)" if isinstance(item["type"], Mapping) else str(item["type"])


ALL = (name_problems, attribute_problems, reference_problems, metric_problems)
