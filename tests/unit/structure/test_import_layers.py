"""The layers of the pack: imports point downwards, and no two modules import each other."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from otel_rl.distro.rooms import LAYERS

PACKAGE = Path(__file__).parents[3] / "instrumentation" / "otel_rl"

#: Parts of the report, from the lowest to the highest.
REPORT = ("report.core", "report.subjects", "report.page", "report")


def _modules() -> dict[str, Path]:
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


MODULES = _modules()
HEIGHT = {room.name: height for height, layer in enumerate(reversed(LAYERS)) for room in layer}


def _room(module: str) -> str:
    return module.partition(".")[0]


def _part_of_report(module: str) -> str:
    return next((part for part in REPORT[:-1] if module == part or module.startswith(f"{part}.")), "report")


def _imports(path: Path) -> set[str]:
    """Modules of the pack that ``path`` imports anywhere: at the top, in a function, for types only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("otel_rl.") in MODULES else node.module for name in names]
        else:
            continue
        found |= {name.removeprefix("otel_rl.") for name in names if name.startswith("otel_rl.")}
    return found


def test_every_module_is_in_a_room():
    assert {_room(module) for module in MODULES if module} == set(HEIGHT)


@pytest.mark.parametrize("module", [module for module in MODULES if module])
def test_a_module_imports_only_its_own_room_and_lower_layers(module):
    room = _room(module)
    wrong = [
        imported
        for imported in _imports(MODULES[module])
        if (target := _room(imported)) != room and HEIGHT[target] >= HEIGHT[room]
    ]
    assert wrong == [], f"{module} ({room}) imports upwards"


@pytest.mark.parametrize("module", [module for module in MODULES if _room(module) == "report"])
def test_a_part_of_the_report_imports_only_itself_and_lower_parts(module):
    part = _part_of_report(module)
    wrong = [
        imported
        for imported in _imports(MODULES[module])
        if _room(imported) == "report" and REPORT.index(_part_of_report(imported)) > REPORT.index(part)
    ]
    # ``from otel_rl.report import human`` names the package, which is the top.
    assert wrong == [], f"{module} ({part}) imports upwards"


def test_no_folder_of_an_instrumentor_imports_another():
    wrong = []
    for module, path in MODULES.items():
        parts = module.split(".")
        if parts[0] != "instrumentors" or len(parts) < 2 or path.parent.name == "instrumentors":
            continue
        for imported in _imports(path):
            target = imported.split(".")
            folder = PACKAGE / "instrumentors" / target[1] if target[0] == "instrumentors" and len(target) > 1 else None
            if folder is not None and folder.is_dir() and target[1] != parts[1]:
                wrong.append((module, imported))
    assert wrong == []


def test_no_two_modules_import_each_other():
    graph = {module: _imports(path) & MODULES.keys() - {module} for module, path in MODULES.items()}
    finished: set[str] = set()
    circles = []

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            circles.append(" -> ".join((*path[path.index(module) :], module)))
            return
        if module in finished:
            return
        for imported in sorted(graph[module]):
            # A package's ``__init__`` lists its own modules; that is no dependency of theirs on each other.
            if not module.startswith(f"{imported}."):
                visit(imported, (*path, module))
        finished.add(module)

    for module in graph:
        visit(module, ())
    assert circles == []


RECORDING = {room.name for layer in LAYERS for room in layer if room.is_recording}


@pytest.mark.parametrize("module", [module for module in MODULES if _room(module) in RECORDING])
def test_a_module_that_may_be_imported_in_any_program_needs_only_what_is_there(module):
    body = ast.parse(MODULES[module].read_text(encoding="utf-8")).body
    names = {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in body if isinstance(node, ast.ImportFrom) and node.module}
    there = {*sys.stdlib_module_names, "opentelemetry", "otel_rl"}
    assert {name.partition(".")[0] for name in names} <= there


def test_threads_are_started_with_the_function_that_is_taken_before_gevent_can_patch_it():
    takers = {
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and "_thread" in {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and node.module == "_thread" and "start_new_thread" in _taken(node))
    }
    assert takers == {"core.threads"}


def _taken(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}
