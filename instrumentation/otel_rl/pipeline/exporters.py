"""Exporters by entry-point name, opened when there is something to export."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from contextlib import suppress

# By name: a program that runs code of a model may take them away, see :mod:`otel_rl.core.guard`.
from os import putenv as _putenv
from os import unsetenv as _unsetenv
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.pipeline import exporter_selection
from otel_rl.pipeline.metric_reader import count_points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.util._importlib_metadata import EntryPoint

    from otel_rl.store.writer.file_store import FileStore

#: With one of these set the OTLP metric exporter decides on temporality or aggregation, so it is asked at the start.
_METRIC_PREFERENCES = (
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
)


_GRPC_LOG = "GRPC_VERBOSITY"
#: Seconds that forks wait, all of them together, while an exporter is being opened.
FORK_PATIENCE = 1.0


class _Opening:
    """Lock held while an exporter is opened; a fork holds it too if it gets it before its timeout.

    Opening imports, on a thread of ours. A child forked meanwhile inherits the loader's lock of glibc and the locks of
    half-imported modules, which nobody releases there: https://github.com/python/cpython/issues/50970. So a fork waits,
    but an import from a slow file system may take longer than any fork should: then the child repairs what Python
    lets it repair (:func:`_forget_half_imported`).
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._forking = threading.local()
        self._patience = FORK_PATIENCE
        self._opener: int | None = None
        #: Time (``time.monotonic()``) of the latest end.
        self.ended = 0.0

    @property
    def in_progress(self) -> bool:
        """True while an exporter is being opened."""
        return self._opener is not None

    def __enter__(self) -> None:
        self._lock.acquire()
        self._opener = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self.ended = time.monotonic()
        self._opener = None
        self._lock.release()

    def before_fork(self) -> None:
        """Wait until no exporter is being opened, or the timeout passes."""
        started = time.monotonic()
        self._forking.held = self._lock.acquire(timeout=max(self._patience, 0))
        if not self._forking.held:
            self._patience -= time.monotonic() - started

    def after_fork_in_parent(self) -> None:
        """Let exporters be opened again."""
        if self._forking.held:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Nothing is being opened here."""
        opener = self._opener
        self._reset()
        if opener is not None and opener != threading.get_ident():
            with guard("exporters.fork"):
                _forget_half_imported(opener)


def _forget_half_imported(thread: int) -> None:
    """Let the child import anew what ``thread``, which exists in the parent only, was importing at the fork.

    There is no public way: module locks are in ``importlib._bootstrap._module_locks`` (CPython 3.10 to 3.13).
    """
    locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})  # noqa: SLF001
    for name, reference in list(locks.items()):
        lock = reference()
        if lock is not None and getattr(lock, "owner", None) == thread:
            del locks[name]
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


opening = _Opening()
_this_module = sys.modules[__name__]


def open_exporter(signal: str, name: str, files: FileStore) -> Any:
    """Return the exporter of ``signal`` with entry-point name ``name``; configured by its own ``OTEL_*`` variables.

    Raises:
        RuntimeError: The program has removed our modules from ``sys.modules``. What is imported now would be a second
            copy of the SDK, which takes nothing from the first.
    """
    if sys.modules.get(__name__) is not _this_module:
        raise RuntimeError("the program has removed modules from sys.modules")
    if name == exporter_selection.FILE:
        from otel_rl.store.writer.file_exporter import FileExporter  # noqa: PLC0415 - the encoders come with the first record

        return FileExporter(signal, files, count_points if signal == "metrics" else len)
    if name == exporter_selection.OTLP_GRPC:
        load_grpc_without_its_log()
    exporter = load_class(signal, name)()
    return (
        watched(exporter, signal) if name in (exporter_selection.OTLP_GRPC, exporter_selection.OTLP_HTTP) else exporter
    )


def watched(exporter: Any, signal: str) -> Any:
    """Return an OTLP exporter of OpenTelemetry's with what its destination answers."""
    # An outage may come when nothing more can be loaded.
    from otel_rl.pipeline import undelivered  # noqa: F401, PLC0415
    from otel_rl.pipeline.otlp_exporter import OtlpExporter  # noqa: PLC0415 - not without such an exporter
    from otel_rl.store.writer import file_exporter  # noqa: F401, PLC0415

    return OtlpExporter(exporter, signal)


def load_grpc_without_its_log() -> None:
    """Import gRPC so that it writes nothing to the program's standard error, unless the program has imported it.

    Its core writes each failure there, and asks for the variable when it is loaded:
    https://github.com/grpc/grpc/blob/master/doc/environment_variables.md. The variable is set for C code only:
    ``os.environ`` is the program's, and a copy of it in another thread fails where a key goes away. A child that is
    started meanwhile, with no environment of its own, has it.
    """
    if "grpc" in sys.modules or _GRPC_LOG in os.environ:
        return
    _putenv(_GRPC_LOG, "NONE")
    try:
        with suppress(ImportError):
            importlib.import_module("grpc")
    finally:
        # The program may have set it meanwhile.
        if _GRPC_LOG not in os.environ:
            _unsetenv(_GRPC_LOG)


def load_class(signal: str, name: str) -> Callable[..., Any]:
    """Return the exporter's (or metric reader's) class."""
    from opentelemetry.util._importlib_metadata import entry_points  # noqa: PLC0415 - not needed by the file store

    entries: list[EntryPoint] = list(entry_points(group=f"opentelemetry_{signal}_exporter", name=name))
    return entries[0].load()  # type: ignore[no-any-return]


def metric_exporter_is_asked_first(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether the exporter must be opened at start, because its temporality configures the reader."""
    if name == exporter_selection.FILE:
        return False
    return not name.startswith("otlp") or any(environ.get(variable) for variable in _METRIC_PREFERENCES)
