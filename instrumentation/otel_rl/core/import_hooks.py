"""Run something right after a module has been imported, without changing what the program sees of it.

Nothing is imported here. A module is found and loaded by whoever would have done it; only the loader's ``exec_module``
gets a call behind it, and is itself again before the module's code runs. What a callback raises never reaches the
``import``.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Callback = Callable[[ModuleType], None]


#: File name in the frames of the import system.
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class ImportHooks:
    """A finder in front of ``sys.meta_path`` that only looks at the names it waits for."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        # Modules whose code was running when somebody began to wait for them: nobody will look for them again.
        self._half_imported: dict[str, list[Callback]] = {}
        # Modules whose code has just run, and whose callbacks run now: for the import system they are not complete yet.
        self._just_imported: set[str] = set()
        self._finding = threading.local()

    def after_import(self, name: str, callback: Callback) -> None:
        """Call ``callback(module)`` once, when ``name`` has been imported; at once if it already is."""
        module = sys.modules.get(name)
        if module is not None and (name in self._just_imported or not _is_being_imported(module)):
            self._run([callback], module)
            return
        waiting = self._callbacks if module is None else self._half_imported
        waiting.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Create no module of our own, as the import protocol asks."""
        if self._half_imported:
            self._serve_completed()
        if name not in self._callbacks or name in self._names_being_found():
            return None
        names = self._names_being_found()
        names.add(name)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            names.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            with guard("import_hooks.watch"):
                self._watch(spec, name)
        return spec

    def _serve_completed(self) -> None:
        for name in list(self._half_imported):
            module = sys.modules.get(name)
            if module is None:
                # Its import has failed; the next one counts.
                self._callbacks.setdefault(name, []).extend(self._half_imported.pop(name, []))
            elif not _is_being_imported(module):
                self._run(self._half_imported.pop(name, []), module)

    def _names_being_found(self) -> set[str]:
        # Other finders of this kind ask all finders, us among them, for the same name.
        if not hasattr(self._finding, "names"):
            self._finding.names = set()
        names: set[str] = self._finding.names
        return names

    def _found_by_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, spec: ModuleSpec, name: str) -> None:
        loader: Any = spec.loader
        if "exec_module" in vars(loader):
            # The loader object is shared and watched already.
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._just_imported.add(name)
            try:
                self._run(self._callbacks.pop(name, []), module)
            finally:
                self._just_imported.discard(name)

        # A frame of the import system, which tracebacks leave out and warnings look through: ours would show in the
        # program's tracebacks, and take the blame for (so hide) a deprecation that a library tells its importer.
        exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORT_SYSTEM)
        loader.exec_module = exec_module

    @staticmethod
    def _run(callbacks: list[Callback], module: ModuleType) -> None:
        for callback in callbacks:
            with guard(f"import_hooks.{module.__name__}"):
                callback(module)


def _is_being_imported(module: ModuleType) -> bool:
    """Return whether the module's own code still runs: what is to be patched may not exist yet."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


#: The hooks of this process.
hooks = ImportHooks()
