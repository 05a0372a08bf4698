"""Checks of single files: the manifest, and the form of every definition by JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from instrumentation.registry.model import MANIFEST, SECTIONS, Document
from instrumentation.registry.problems import Problem

SCHEMA = Path(__file__).parent / "schema.json"


def form_problems(documents: list[Document], folder: Path) -> Iterator[Problem]:
    """Faults that show without looking at any other file."""
    if not any(document.path.name == MANIFEST for document in documents):
        yield Problem(folder / MANIFEST, MANIFEST, "is missing; it names the registry's schema_url")
    for document in documents:
        if document.path.name == MANIFEST:
            yield from _manifest_problems(document)
        else:
            yield from (_problem(document, error) for error in _validator().iter_errors(document.data))


def _manifest_problems(document: Document) -> Iterator[Problem]:
    if "file_format" in document.data:
        message = "must not be there: weaver then reads the manifest as that of a published registry"
        yield Problem(document.path, "file_format", message)
    if not str(document.data.get("schema_url", "")).startswith("https://"):
        yield Problem(document.path, "schema_url", "must be an https address that ends in the version")


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA.read_text()))


def _problem(document: Document, error: ValidationError) -> Problem:
    # A failed alternative says only "not valid under any of the given schemas"; the branch that got furthest says why.
    cause = max(_leaves(error), key=lambda leaf: len(leaf.absolute_path))
    return Problem(document.path, _name(document.data, list(cause.absolute_path)), cause.message)


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    if not error.context:
        yield error
    for inner in error.context or ():
        yield from _leaves(inner)


def _name(data: Any, path: list[Any]) -> str:
    """Return the definition's name and the place in it, as a reader would look for it."""
    section, *rest = path or ["file"]
    if section not in SECTIONS or not rest:
        return str(section)
    index, *inside = rest
    entry = data[section][index]
    name = entry.get(SECTIONS[section]) if isinstance(entry, Mapping) else None
    return " ".join(str(part) for part in (name or f"{section} {index}", *inside))
