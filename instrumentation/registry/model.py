"""The registry as objects, with every reference resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Item = Mapping[str, Any]

REGISTRY = Path(__file__).parent / "definitions"
MANIFEST = "manifest.yaml"
SCHEMAS = REGISTRY.parent / "schemas"
# The list of each kind of definition in a file, and the key that names an entry of it.
SECTIONS = {
    "attributes": "key",
    "attribute_groups": "id",
    "metrics": "name",
    "spans": "type",
    "events": "name",
    "entities": "type",
}


@dataclass(frozen=True, slots=True)
class Document:
    """One file of the registry."""

    path: Path
    data: Item

    def items(self, section: str) -> list[Item]:
        """Return the definitions of one kind."""
        return list(self.data.get(section, ()))


@dataclass(frozen=True, slots=True)
class Use:
    """One attribute of one signal."""

    key: str
    requirement: str
    condition: str
    brief: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A metric, span, event or entity with its attributes; `item` is its entry in the file."""

    name: str
    item: Item
    uses: tuple[Use, ...]
    identity: tuple[Use, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes' keys in the order of the file."""
        return tuple(use.key for use in self.uses)


@dataclass(frozen=True, slots=True)
class Rename:
    """An attribute that has another name since a version of the registry."""

    version: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything in the registry, each kind sorted by name."""

    schema_url: str
    renames: tuple[Rename, ...]
    attributes: Mapping[str, Item]
    metrics: tuple[Signal, ...]
    spans: tuple[Signal, ...]
    events: tuple[Signal, ...]
    entities: tuple[Signal, ...]

    def annotated(self, name: str) -> Iterator[str]:
        """Return the keys of the attributes that carry one of our annotations."""
        return (key for key, item in self.attributes.items() if annotation(item, name))


def annotation(item: Item, name: str) -> Any:
    """One of our annotations, or None."""
    return item.get("annotations", {}).get("otel_rl", {}).get(name)


def read(folder: Path = REGISTRY) -> list[Document]:
    """Every file of the registry, in the order of their names, unchecked.

    Raises:
        yaml.MarkedYAMLError: a file is no YAML; its mark names the file and the line.
    """
    documents = []
    for path in sorted(folder.glob("*.yaml")):
        with path.open(encoding="utf-8") as stream:
            documents.append(Document(path, yaml.safe_load(stream) or {}))
    return documents


def resolve(documents: list[Document]) -> Registry:
    """Bring references and definitions together.

    Raises:
        KeyError: a reference leads nowhere; the checker says which.
    """
    attributes = {item["key"]: item for _, item in entries(documents, "attributes")}
    groups = {item["id"]: item for _, item in entries(documents, "attribute_groups")}

    def signals(section: str) -> tuple[Signal, ...]:
        found = [_signal(item, SECTIONS[section], attributes, groups) for _, item in entries(documents, section)]
        return tuple(sorted(found, key=lambda signal: signal.name))

    manifest = next(document for document in documents if document.path.name == MANIFEST)
    return Registry(
        schema_url=manifest.data["schema_url"],
        renames=tuple(renames(manifest.data["schema_url"])),
        attributes=dict(sorted(attributes.items())),
        metrics=signals("metrics"),
        spans=signals("spans"),
        events=signals("events"),
        entities=signals("entities"),
    )


def renames(schema_url: str) -> Iterator[Rename]:
    """Read which attributes were renamed from the schema file of the URL; a registry without one has renamed none."""
    path = SCHEMAS / f"{schema_url.rpartition('/')[2]}.yaml"
    versions = yaml.safe_load(path.read_text(encoding="utf-8"))["versions"] if path.exists() else {}
    for version, sections in versions.items():
        for change in ((sections or {}).get("all") or {}).get("changes", ()):
            for old, new in change["rename_attributes"]["attribute_map"].items():
                yield Rename(version, old, new)


def entries(documents: list[Document], section: str) -> Iterator[tuple[Document, Item]]:
    """Every definition of one kind with the file that holds it."""
    for document in documents:
        for item in document.items(section):
            yield document, item


def references(item: Item) -> list[Item]:
    """Return the references of a definition; those of an entity are its identity and its description."""
    return [*item.get("identity", ()), *item.get("description", ()), *item.get("attributes", ())]


def _signal(item: Item, name: str, attributes: Mapping[str, Item], groups: Mapping[str, Item]) -> Signal:
    listed = item.get("description", ()) if "identity" in item else item.get("attributes", ())
    return Signal(
        name=item[name],
        item=item,
        uses=tuple(_uses(listed, attributes, groups)),
        identity=tuple(_uses(item.get("identity", ()), attributes, groups)),
    )


def _uses(listed: Iterable[Item], attributes: Mapping[str, Item], groups: Mapping[str, Item]) -> Iterator[Use]:
    for reference in listed:
        if "ref_group" in reference:
            yield from _uses(groups[reference["ref_group"]].get("attributes", ()), attributes, groups)
            continue
        level = reference.get("requirement_level", "recommended")
        condition = ""
        if isinstance(level, Mapping):
            level, condition = next(iter(level.items()))
        definition = attributes[reference["ref"]]
        yield Use(reference["ref"], level, condition, reference.get("brief", definition["brief"]))
