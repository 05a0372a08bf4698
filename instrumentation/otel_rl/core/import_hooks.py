"""Run something right after a module has been imported, without changing what the program sees of it.

Nothing is imported here. A module is found and loaded by whoever would have done it; only the loader's ``exec_module``
gets a call behind it, and is itself again before the module's code runs. What a callback raises never reaches the
``import``.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock
from otel_rl.core.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Callback = Callable[[ModuleType], None]


#: Libraries that take long to import: how long is part of where a run's time went. Of others nothing is measured.
_LARGE = {
    *("accelerate", "anthropic", "bitsandbytes", "datasets", "deepspeed", "faiss", "flash_attn", "gymnasium", "jax"),
    *("keras", "langchain", "langchain_community", "langchain_core", "langgraph", "lightning", "litellm"),
    *("llama_index", "matplotlib", "megatron", "numpy", "openai", "pandas", "peft", "pyarrow", "pytorch_lightning"),
    *("ray", "scipy", "sentence_transformers", "sglang", "sklearn", "spacy", "sympy", "tensorflow", "tokenizers"),
    *("torch", "torchaudio", "torchvision", "transformers", "trl", "unsloth", "verl", "vllm", "wandb"),
}
#: Shortest import that is kept, in ns, and most of them.
_SHORTEST, _MOST_INTERVALS = 1_000_000, 500
#: File name in the frames of the import system.
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class _ImportingThread(threading.local):
    """What the import system does in this thread."""

    #: A large library is being imported.
    is_importing = False

    def __init__(self) -> None:
        #: Names that the other finders are asked for: those of this kind ask all finders, us among them.
        self.names: set[str] = set()


class ImportHooks:
    """A finder in front of ``sys.meta_path`` that only looks at the names it waits for."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        # Modules whose code was running when somebody began to wait for them: nobody will look for them again.
        self._half_imported: dict[str, list[Callback]] = {}
        # Modules whose code has just run, and whose callbacks run now: for the import system they are not complete yet.
        self._just_imported: set[str] = set()
        self._finding = _ImportingThread()
        self._intervals: list[tuple[int, int]] = []

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
        """Create no module of our own, as the import protocol asks.

        No callback runs here: ``_find_spec`` of importlib (CPython 3.10 to 3.13) holds the lock of all imports, and a
        callback that waits for a module of another thread, which needs that lock, would wait for ever.
        """
        is_measured = name.partition(".")[0] in _LARGE and not self._finding.is_importing
        if not is_measured and name not in self._callbacks and not self._completed():
            return None
        names = self._finding.names
        if name in names:
            return None
        names.add(name)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            names.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            with guard("import_hooks.watch"):
                self._watch(spec, name, is_measured=is_measured)
        return spec

    def take_intervals(self) -> list[tuple[int, int]]:
        """Return when large libraries were imported since the last call, in ns since the epoch.

        An import inside of another one of its thread is part of that.
        """
        intervals, self._intervals = self._intervals, []
        return intervals

    def _completed(self) -> dict[str, ModuleType | None]:
        """Modules that wait in ``_half_imported`` although their import has ended; None: it has failed."""
        modules = {name: sys.modules.get(name) for name in list(self._half_imported)}
        return {name: module for name, module in modules.items() if module is None or not _is_being_imported(module)}

    def _serve_completed(self) -> None:
        for name, module in self._completed().items():
            callbacks = self._half_imported.pop(name, [])
            if module is None:
                # Its import has failed; the next one counts.
                self._callbacks.setdefault(name, []).extend(callbacks)
            else:
                self._run(callbacks, module)

    def _found_by_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, spec: ModuleSpec, name: str, *, is_measured: bool) -> None:
        loader: Any = spec.loader
        if "exec_module" in vars(loader):
            # The loader object is shared and watched already.
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            if is_measured:
                self._measure(execute, module)
            else:
                execute(module)
            self._just_imported.add(name)
            try:
                self._run([*self._callbacks.pop(name, []), *self._half_imported.pop(name, [])], module)
            finally:
                self._just_imported.discard(name)
            # Not before this module's code has run: whoever waits for it meanwhile would be given an empty module.
            self._serve_completed()

        # A frame of the import system, which tracebacks leave out and warnings look through: ours would show in the
        # program's tracebacks, and take the blame for (so hide) a deprecation that a library tells its importer.
        exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORT_SYSTEM)
        loader.exec_module = exec_module

    def _measure(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        here, since = self._finding, clock.now()
        here.is_importing = True
        try:
            execute(module)
        finally:
            here.is_importing = False
            now = clock.now()
            if now - since >= _SHORTEST and len(self._intervals) < _MOST_INTERVALS:
                self._intervals.append((since, now))

    # As above.
    _measure.__code__ = _measure.__code__.replace(co_filename=_IMPORT_SYSTEM)

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
