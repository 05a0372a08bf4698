"""A name of the pack means one thing, and a package names what it holds."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PACKAGE = TESTS.parent / "instrumentation" / "otel_rl"
#: Constants are generated from the registry, and named as it names them.
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "semconv"]


def test_no_two_top_level_classes_share_a_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_two_test_modules_share_a_name():
    # Folders of tests are no packages, so pytest collects the second of a name as an error.
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []


def _listed() -> list[Path]:
    """Return the packages that list their modules: of an instrumentor or a subject the folder's name says all."""
    packages = [
        path.parent for path in PACKAGE.rglob("__init__.py") if path.parent not in (PACKAGE, PACKAGE / "semconv")
    ]
    by_name = (PACKAGE / "instrumentors", PACKAGE / "report" / "subjects")
    return [package for package in packages if not any(parent in by_name for parent in package.parents)]


@pytest.mark.parametrize("package", _listed(), ids=lambda package: str(package.relative_to(PACKAGE)))
def test_the_docstring_of_a_package_names_its_modules(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    lost = {module for module in modules if re.search(rf"\b{module}\b", text) is None}
    assert lost == set(), "name it in the docstring of its package"
