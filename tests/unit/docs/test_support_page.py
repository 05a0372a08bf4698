"""Requirements of the instrumentors, tests/versions.toml, docs/support.md and the groups of pyproject.toml agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11
from packaging.requirements import Requirement  # noqa: E402
from packaging.version import Version  # noqa: E402

from instrumentation import support_page  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
TABLE = tomllib.loads((ROOT / "tests" / "versions.toml").read_text())
VERSIONS = {name: row for name, row in TABLE.items() if not row.get("below")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
KINDS = {kind.library: kind for kind in support_page.instrumentors()}


def test_the_page_is_the_one_that_the_instrumentors_give():
    assert support_page.main(["--check"]) == 0


def test_a_page_that_was_edited_by_hand_fails_the_check_and_is_written_anew(tmp_path, capsys):
    page = tmp_path / "support.md"
    page.write_text(support_page.PAGE.read_text().replace("openai >= 1", "openai >= 0"))
    assert support_page.main(["--check"], page) == 1
    assert "make generate" in capsys.readouterr().err
    assert support_page.main([], page) == 0
    assert page.read_text() == support_page.PAGE.read_text()


def test_every_instrumentor_has_its_row_of_versions_and_no_other_has():
    assert set(VERSIONS) == set(KINDS)
    for library, row in VERSIONS.items():
        requirement = Requirement(KINDS[library].requirements[0])
        assert requirement.name == row.get("distribution", library)
        assert row.get("build") in (None, *KINDS[library].builds)
        for version in (row["oldest"], row["latest"], *row.get("also", [])):
            assert requirement.specifier.contains(version)
        assert set(row.get("together", [])) <= set(VERSIONS)


def test_a_library_of_agents_is_supported_from_the_oldest_version_that_is_tested():
    for library, row in VERSIONS.items():
        if row.get("agents"):
            bounds = Requirement(KINDS[library].requirements[0]).specifier
            assert [Version(one.version) for one in bounds if one.operator == ">="] == [Version(row["oldest"])]


def test_companions_are_tested_within_their_range():
    for library, row in VERSIONS.items():
        companions = {one.name: one for one in map(Requirement, KINDS[library].requirements[1:])}
        for pin in (*row.get("with-oldest", []), *row.get("with-latest", [])):
            tested = Requirement(pin)
            versions = [one.version for one in tested.specifier if one.operator == "=="]
            if tested.name in companions and versions:
                assert companions[tested.name].specifier.contains(versions[0])


def test_the_test_environment_holds_every_library():
    groups = PROJECT["dependency-groups"]
    names = {
        Requirement(one).name for group in ("demo", "clients", "test") for one in groups[group] if isinstance(one, str)
    }
    wanted = {
        Requirement(kind.requirements[0]).name
        for library, kind in KINDS.items()
        if not VERSIONS[library].get("own_environment")
    }
    # What the others bring: langchain-core of langchain, accelerate of TRL.
    assert wanted <= names | {"langchain-core", "accelerate"}


def test_nothing_of_the_pack_imports_an_instrumented_library():
    # OpenTelemetry's exporter over HTTP is a client of requests.
    ours_too = {"opentelemetry", "requests"}
    tops = {_top(module) for kind in KINDS.values() for module in kind.modules} - ours_too
    wrong = []
    for path in sorted((ROOT / "instrumentation" / "otel_rl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            wrong += [(path.name, name) for name in names if _top(name) in tops]
    assert wrong == []


def _top(module):
    """The package of a module; many share the namespace ``google``."""
    return re.match(r"(google\.)?[^.]*", module).group()
