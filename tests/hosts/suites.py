"""The rows of ``suites.toml``: which tests of whom are run in both modes."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("suites.toml")
CONSTRAINTS = ROOT / "tests" / "constraints" / "latest.txt"


@dataclass(frozen=True)
class Suite:
    """One row of the table."""

    name: str
    #: The distribution on the package index whose tests these are.
    distribution: str
    #: ``sdist``: the tests are in its source distribution. Else a folder beside the table.
    source: str
    #: What pytest is asked to run, relative to the source.
    select: tuple[str, ...]
    #: Entry points of ours that must be active in the instrumented run.
    instrumentors: tuple[str, ...]
    #: Fewer tests than this mean that the selection is broken.
    at_least: int
    #: The longest that one run may take.
    limit_minutes: float
    requirements: tuple[str, ...] = ()
    #: The version of a distribution that tests/constraints/latest.txt does not have.
    pinned: str = ""
    #: Distributions for which this suite needs another version than tests/constraints/latest.txt has.
    unconstrained: tuple[str, ...] = ()
    #: Paths of the source that the tests must not see, the library itself above all: they test the installed one.
    remove: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    #: The fewest processes that must have recorded.
    processes: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    #: Test -> why it is left out.
    deselect: dict[str, str] = field(default_factory=dict)
    #: Test -> why its outcome differs today.
    known: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version that the row pins, else the one in tests/constraints/latest.txt."""
        if self.pinned:
            return self.pinned
        found = re.search(rf"^{re.escape(self.distribution)}==(\S+)", CONSTRAINTS.read_text(), re.MULTILINE)
        if found is None:
            raise SystemExit(f"{CONSTRAINTS.name} has no version of {self.distribution}")
        return found.group(1)


def load() -> dict[str, Suite]:
    """All rows, by name."""
    rows = tomllib.loads(TABLE.read_text())
    return {name: _suite(name, row) for name, row in rows.items()}


def _suite(name: str, row: dict[str, Any]) -> Suite:
    values: dict[str, Any] = {
        key.replace("-", "_"): tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return Suite(name=name, **values)


def python_version() -> str:
    """The interpreter's version; every suite runs on the interpreter that compares."""
    return ".".join(map(str, sys.version_info[:3]))
