"""The program's import path: one entry of ours, and no module of the program hidden by one that we have imported.

We import parts of the standard library before the program runs. A module of the program may have the same name, in the
folder of its script for example. Then the program gets its own, and we get the standard library's.
"""

# ruff: noqa: PTH100, PTH110, PTH112, PTH118, PTH120, PTH208 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

from otel_rl.process import child_processes

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
#: Parts of these are in use from here on; a second copy would record apart.
_KEPT = frozenset({"opentelemetry", "otel_rl"})
#: Others than the standard library that exporters, and what they send with, import at the first record only.
_IMPORTED_BY_EXPORTERS = frozenset(
    {"certifi", "chardet", "charset_normalizer", "google", "grpc", "idna", "psutil", "requests", "socks"}
    | {"typing_extensions", "urllib3"}
)
#: We may import these later, but never the interpreter's own ``test``: many programs have a folder of that name.
_STANDARD_LIBRARY = sys.stdlib_module_names - {"test"}


def with_bootstrap(python_path: str, replaced: str = "") -> str:
    """Return ``PYTHONPATH`` with our bootstrap folder at the end, or ahead of the first entry that would hide it."""
    entries = [entry for entry in python_path.split(os.pathsep) if entry not in (BOOTSTRAP, replaced)]
    if entries in ([], [""]):
        return BOOTSTRAP
    position = next((index for index, entry in enumerate(entries) if _has_sitecustomize(entry)), len(entries))
    return os.pathsep.join([*entries[:position], BOOTSTRAP, *entries[position:]])


def _has_sitecustomize(folder: str) -> bool:
    return PathFinder.find_spec("sitecustomize", [folder or "."]) is not None


def release_names(loaded_before: frozenset[str], path: list[str]) -> None:
    """Forget the modules imported since then that the program would find elsewhere on its ``path``."""
    entries = {folder: _entries(folder) for folder in _ahead_of_standard_library(path)}
    if not _modules_in(entries, _STANDARD_LIBRARY | _IMPORTED_BY_EXPORTERS | _imported(loaded_before)):
        return
    _import_the_rest()
    for name in _modules_in(entries, _imported(loaded_before)):
        for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
            del sys.modules[loaded]


def _imported(loaded_before: frozenset[str]) -> set[str]:
    """Return the top-level names that we have imported."""
    return {name.partition(".")[0] for name in sys.modules.keys() - loaded_before} - loaded_before - _KEPT


def _import_the_rest() -> None:
    """Import now what we would import at the first record, before the program's module shadows the name."""
    import pkgutil  # noqa: PLC0415 - a rare case

    from otel_rl.distro import configurator, rooms  # noqa: PLC0415
    from otel_rl.pipeline import exporter_selection, exporters  # noqa: PLC0415

    if configurator.telemetry() is None:
        return
    for signal, names in exporter_selection.choose(os.environ).exporters.items():
        for name in names:
            if name != exporter_selection.FILE:
                with suppress(Exception):
                    exporters.load_class(signal, name)().shutdown()
                if name == exporter_selection.OTLP_HTTP:
                    with suppress(ImportError, AttributeError):
                        from otel_rl.pipeline import otlp_exporter  # noqa: PLC0415

                        otlp_exporter.keep_requests()
    package = os.path.dirname(os.path.dirname(BOOTSTRAP))
    for room in (room.name for layer in rooms.LAYERS for room in layer if room.is_recording):
        for module in pkgutil.walk_packages([os.path.join(package, room)], prefix=f"otel_rl.{room}."):
            importlib.import_module(module.name)


def _ahead_of_standard_library(path: list[str]) -> list[str]:
    standard_library = os.path.dirname(os.__file__)
    position = path.index(standard_library) if standard_library in path else 0
    return [*_first_entry(), *path[:position]]


def _first_entry() -> list[str]:
    """Return the entry that the interpreter puts first when it starts the program, which is after this."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return []
    arguments, parent = child_processes.original_arguments(), os.getppid()
    if child_processes.is_worker(arguments):
        # A worker of multiprocessing gets the path of its parent.
        arguments = child_processes.command_line(parent)
    kind, which, _ = child_processes.program(arguments)
    if kind != "script":
        return ["."]
    script = os.path.realpath(which)
    return [script if os.path.isdir(script) else os.path.dirname(script)]


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


def _modules_in(entries: dict[str, list[str]], wanted: frozenset[str] | set[str]) -> set[str]:
    """Return which modules of these names are in the folders; there may be 100,000 other entries, on a slow disk."""
    modules = set()
    for folder, names in entries.items():
        for name in names:
            module = name.partition(".")[0]
            if module in wanted and (
                name.endswith((".py", *EXTENSION_SUFFIXES)) or os.path.exists(os.path.join(folder, name, "__init__.py"))
            ):
                modules.add(module)
    return modules
