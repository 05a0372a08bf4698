"""The file store of this process: where it is and what its manifest says."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from otel_rl.core import __version__, instrumentor_status, settings, stderr
from otel_rl.process import child_processes, launcher_environment, process_identity
from otel_rl.process.launch import safe
from otel_rl.semconv import attributes
from otel_rl.store.writer import manifest
from otel_rl.store.writer.file_store import FileStore
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from opentelemetry.sdk.resources import Resource

#: The new and the old name (``torch/csrc/distributed/c10d/FlightRecorder.cpp``). The program may set it, too.
_TORCH_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


class ProcessStore:
    """Builds the :class:`FileStore` of this process and keeps what its manifest needs."""

    def __init__(self, resource: Resource) -> None:
        configured = settings.current()
        self._resource = resource
        self._started = time.time_ns()
        self._monotonic = time.monotonic_ns()
        self.ended: int | None = None
        self.exit_reason: str | None = None
        #: The interpreter is about to end; False before an ``os._exit``, which leaves no status.
        self.leaves_status = False
        #: Module that leaves the exit status; None before there is a folder, or without ``ctypes``.
        self._exit_status: ModuleType | None = None
        #: Child processes wrote files of this run, as far as :meth:`find_children` has looked.
        self.children_recorded = False
        self.files = FileStore(
            configured.data_directory,
            self._place,
            self._manifest,
            file_limit=configured.file_max_bytes,
            total_limit=configured.data_max_bytes,
            warn=warn_once_per_node,
        )
        # On the thread that learnt the identity: a flag only, the files' thread writes.
        process_identity.add_listener(lambda _: self.files.mark_stale())

    def describe(self, resource: Resource) -> None:
        """Take names and ids from ``resource``."""
        self._resource = resource

    def _place(self) -> str:
        with suppress(ImportError):
            # At the end nothing is imported any more.
            from otel_rl.process import exit_status  # noqa: PLC0415 - a process without records needs it not

            self._exit_status = exit_status
        who = process_identity.current()
        process = f"rank{who.rank}" if who.rank is not None else f"pid{self._value(attributes.PROCESS_PID)}"
        instance = str(self._value(attributes.SERVICE_INSTANCE_ID) or "").replace("-", "")[:8]
        name = f"{safe(socket.gethostname())}-{process}-{instance}"
        return str(PurePath(run_name()) / name)

    @property
    def run_directory(self) -> Path:
        """The directory of the run, which all its processes on this file system share."""
        return run_directory()

    def find_children(self) -> None:
        """See whether other processes wrote files of this run since this one began. For the files' thread only."""
        manifests = self.run_directory.glob(f"*/{manifest.NAME}")
        others = (path for path in manifests if path.parent != self.files.directory)
        # A run id that the user chose may have files of an earlier launch.
        self.children_recorded = any(path.stat().st_mtime_ns >= self._started for path in others)

    def _value(self, key: str) -> Any:
        return self._resource.attributes.get(key)

    def _manifest(self) -> Mapping[str, Any]:
        who = process_identity.current()
        content: dict[str, Any] = {
            # Of libraries that have no module with their version it takes milliseconds: not while the program waits.
            "versions": {"otel_rl": __version__, **({} if self.files.is_only_shown else _loaded_versions())},
            "run_id": who.id,
            "attempt": who.attempt,
            "rank": who.rank,
            "local_rank": who.local_rank,
            "world_size": who.world_size,
            "role": who.role,
            "launcher": who.launcher,
            "worker_name": who.worker_name,
            "worker_id": who.worker_id,
            "host": socket.gethostname(),
            "pid": self._value(attributes.PROCESS_PID),
            "lifetime": _lifetime(),
            "service_name": self._value(attributes.SERVICE_NAME),
            "command": launcher_environment.command(child_processes.original_arguments()),
            "torch_dumps": _torch_dumps(),
            "started_unix_nano": self._started,
            "monotonic_nano": self._monotonic,
            "ended_unix_nano": self.ended,
            "clean_exit": self.ended is not None and self.exit_reason is None,
            "steps_missing": _steps_are_missing(),
            "backward_passes_without_step": _passes_without_step(),
            "dropped": manifest.dropped_by_signal(drops.snapshot()),
            "instrumentors": instrumentor_status.snapshot(),
        }
        if self.exit_reason is not None:
            content["exit_reason"] = self.exit_reason
        return content

    def end(self, exit_reason: str | None) -> None:
        """Complete the manifest and close the files at the end of the process. For the files' thread only."""
        self.ended, self.exit_reason = time.time_ns(), exit_reason
        self.files.mark_stale()
        self.files.refresh()
        self.files.close()
        if self.leaves_status and self._exit_status is not None and self.files.directory is not None:
            # Not every C library can do it.
            with suppress(AttributeError, OSError):
                self._exit_status.write_at_exit(self.files.directory)

    def after_fork_in_child(self, resource: Resource) -> None:
        """Give the child a directory of its own."""
        self.describe(resource)
        self._started, self._monotonic = time.time_ns(), time.monotonic_ns()
        self.ended = self.exit_reason = None
        self.children_recorded = False
        self.files.after_fork_in_child()


def _steps_are_missing() -> bool:
    """Return whether the program trains and has opened no step; rooms of this layer do not import each other."""
    steps = sys.modules.get("otel_rl.training.steps")
    return steps is not None and bool(steps.is_missing())


def _passes_without_step() -> int:
    """Return the backward passes of a program in which no step was opened."""
    guessed = sys.modules.get("otel_rl.training.guessed_steps")
    return guessed.passes_without_step() if guessed is not None else 0


def _lifetime() -> list[Any]:
    """Return what names this process on its machine, so that a reader there can see whether it runs."""
    from otel_rl.process import lifetime  # noqa: PLC0415 - likewise

    return list(lifetime.own())


def _torch_dumps() -> str | None:
    """Prefix of the files to which PyTorch writes its flight recorder, where a variable gives one."""
    given = next((os.environ[name] for name in _TORCH_DUMPS if os.environ.get(name)), None)
    # The working directory may be gone.
    with suppress(OSError):
        return str(Path(given).absolute()) if given else None
    return given


def _loaded_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that shape a run, as far as the program has loaded them."""
    # The manifest is written also where nothing more can be imported: without descriptors, or in another root.
    with suppress(Exception):
        from otel_rl.process import program_facts  # noqa: PLC0415 - not where nothing is recorded

        return program_facts.loaded_versions()
    return {"python": platform.python_version()}


def run_directory() -> Path:
    """Return the directory of the run, which is there once a process has written files."""
    return Path(settings.current().data_directory) / run_name()


def run_name() -> str:
    """Return the name of the run as a part of a path."""
    return safe(process_identity.current().id or "unknown-run")


def warn_once_per_node(line: str) -> None:
    """Every process of a node meets the same full disk: its first one says it."""
    if process_identity.current().local_rank in (0, None):
        stderr.write_line(line)
