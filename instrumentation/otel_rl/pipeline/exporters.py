"""Exporters by entry-point name, opened when there is something to export."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from otel_rl.pipeline import exporter_selection
from otel_rl.pipeline.metric_reader import count_points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.util._importlib_metadata import EntryPoint

    from otel_rl.offline.store.file_store import FileStore

#: With one of these set the OTLP metric exporter decides on temporality or aggregation, so it is asked at the start.
_METRIC_PREFERENCES = (
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
)


#: Longest that a fork waits for an exporter that is being opened, in seconds.
_LONGEST_OPENING = 5.0


class _Opening:
    """Held while an exporter is opened, and over a fork.

    Opening imports, on a thread of ours. A child forked meanwhile would inherit the locks of half-imported modules and
    wait for ever when the program imports one of them: the thread that could release them exists in the parent only.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._forking = threading.local()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._forking.held = self._lock.acquire(timeout=_LONGEST_OPENING)

    def after_fork_in_parent(self) -> None:
        if self._forking.held:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()


opening = _Opening()
_this_module = sys.modules[__name__]


def open_exporter(signal: str, name: str, files: FileStore) -> Any:
    """The exporter of ``signal`` with entry-point name ``name``; configured by its own ``OTEL_*`` variables.

    Raises:
        RuntimeError: The program has removed our modules from ``sys.modules``. What is imported now would be a second
            copy of the SDK, which takes nothing from the first.
    """
    if sys.modules.get(__name__) is not _this_module:
        raise RuntimeError("the program has removed modules from sys.modules")
    if name == exporter_selection.FILE:
        from otel_rl.offline.store.file_exporter import FileExporter  # noqa: PLC0415 - the encoders come with the first record

        return FileExporter(signal, files, count_points if signal == "metrics" else len)
    return load_class(signal, name)()


def load_class(signal: str, name: str) -> Callable[[], Any]:
    """The exporter's (or metric reader's) class."""
    from opentelemetry.util._importlib_metadata import entry_points  # noqa: PLC0415 - not needed by the file store

    found: list[EntryPoint] = list(entry_points(group=f"opentelemetry_{signal}_exporter", name=name))
    return found[0].load()  # type: ignore[no-any-return]


def metric_exporter_is_asked_first(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the exporter must be opened at the start: its temporality is part of the reader."""
    if name == exporter_selection.FILE:
        return False
    return not name.startswith("otlp") or any(environ.get(variable) for variable in _METRIC_PREFERENCES)
