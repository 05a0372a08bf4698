"""Tests find what they import through `pythonpath` in pyproject.toml or PYTHONPATH, never by editing `sys.path`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
#: These fork, and the fork becomes a program of its own, which has the search path of a program.
LAUNCHERS = {"integration/process/warm_launcher.py", "support/forked_programs.py"}


def changes_search_path(node: ast.AST) -> bool:
    """True for `sys.path.insert(...)` and the like, and for an assignment to `sys.path` or a part of it."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "sys.path"
    targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
    return any(ast.unparse(target).startswith("sys.path") for target in targets)


@pytest.mark.parametrize(
    "line", ["sys.path.insert(0, 'x')", "sys.path.append('x')", "sys.path[:0] = ['x']", "sys.path += ['x']"]
)
def test_every_way_to_edit_the_search_path_is_seen(line):
    assert any(changes_search_path(node) for node in ast.walk(ast.parse(line)))


def test_no_test_edits_the_search_path():
    offenders = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in TESTS.rglob("*.py")
        # Parsing all of them takes seconds.
        if "sys.path" in (text := path.read_text()) and str(path.relative_to(TESTS)) not in LAUNCHERS
        for node in ast.walk(ast.parse(text))
        if changes_search_path(node)
    ]

    assert offenders == []
