"""The upstream registries whose definitions ours repeat, each at one revision that never changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from instrumentation.registry.model import SECTIONS, Document, annotation, entries
from instrumentation.registry.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PINS = Path(__file__).parent / "upstream.yaml"
_TAG_OR_COMMIT = re.compile(r"v\d+\.\d+\.\d+(-[0-9a-z.]+)?|[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Pin:
    """One upstream registry: its title in the reference pages, its repository and the revision that we follow."""

    title: str
    url: str
    revision: str

    @property
    def link(self) -> str:
        """The repository at the revision, as Markdown; a commit is shortened as git does."""
        shown = self.revision if self.revision.startswith("v") else self.revision[:7]
        return f"[{self.title} {shown}]({self.url}/tree/{self.revision})"


def read(path: Path = PINS) -> Mapping[str, Pin]:
    """Every pinned registry by the name that definitions give it.

    Raises:
        TypeError: an entry lacks one of title, url and revision, or has more than these.
    """
    with path.open(encoding="utf-8") as stream:
        return {name: Pin(**entry) for name, entry in yaml.safe_load(stream).items()}


def upstream_problems(documents: list[Document], path: Path = PINS) -> Iterator[Problem]:
    """Definitions of a registry that is not pinned, and pins to what can change, such as a branch."""
    pins = read(path)
    for name, pin in pins.items():
        if not _TAG_OR_COMMIT.fullmatch(str(pin.revision)):
            yield Problem(path, name, f"revision {pin.revision!r} is neither a version tag nor a whole commit hash")
    for section, name_key in SECTIONS.items():
        for document, item in entries(documents, section):
            upstream = annotation(item, "upstream")
            if upstream is not None and upstream not in pins:
                yield Problem(document.path, item[name_key], f"upstream {upstream} has no revision in {path.name}")
