"""The processes of a run: what their manifests and resources say of them, and what was read from each."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from otel_rl.process import exit_status
from otel_rl.process.lifetime import Lifetime
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlLauncherValues
from otel_rl.store.reader.otlp_values import int_or_none, integer
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.store.reader.otlp_values import Attributes

MANIFEST = "manifest.json"
#: Of a part of an attempt, at most: a resumed run has its moment there, 20 digits. Python refuses to read thousands.
_DIGITS = 40

_MANIFEST_KEYS = {
    names.RL_RUN_ID: "run_id",
    names.RL_RUN_ATTEMPT: "attempt",
    names.RL_RANK: "rank",
    names.RL_LOCAL_RANK: "local_rank",
    names.RL_WORLD_SIZE: "world_size",
    names.RL_ROLE: "role",
    names.RL_LAUNCHER: "launcher",
    names.RL_WORKER_NAME: "worker_name",
    names.RL_WORKER_ID: "worker_id",
    names.HOST_NAME: "host",
    names.PROCESS_PID: "pid",
    names.SERVICE_NAME: "service_name",
}


@dataclass(slots=True, eq=False)
class Process:
    """One process that reported; ``manifest`` is ``None`` where none was written (a collector's files)."""

    key: str
    manifest: dict[str, Any] | None = None
    manifest_error: str = ""
    #: Exit status that the process left at its very end; ``None`` where there is none.
    exit_status: int | None = None
    #: True where it was about to leave one.
    was_ending: bool = False
    resource: Attributes = field(default_factory=dict)
    spans: int = 0
    points: int = 0
    logs: int = 0
    first: int = 0
    last: int = 0
    unreadable: Unreadable = field(default_factory=Unreadable)
    #: When files came into its folder, as far as the reader has looked; in ns, of the file system.
    folder_changed: int = 0

    def identity(self, attribute: str) -> Any:
        """Return a resource attribute of this process: its resource's, else its manifest's; ``None`` if unknown."""
        value = self.resource.get(attribute)
        if value is None and self.manifest is not None and attribute in _MANIFEST_KEYS:
            value = self.manifest.get(_MANIFEST_KEYS[attribute])
        return value

    @property
    def records(self) -> int:
        """Spans, points of metrics and log records that were read."""
        return self.spans + self.points + self.logs

    @property
    def rank(self) -> int | None:
        """Global rank, or ``None`` where there is none."""
        return int_or_none(self.identity(names.RL_RANK))

    @property
    def attempt(self) -> tuple[int, ...]:
        """The attempt of the run in order; ``()`` where there is none, or none that can be read."""
        return _attempt(str(self.identity(names.RL_RUN_ATTEMPT) or ""))

    @property
    def is_of_ray(self) -> bool:
        """True of a worker of Ray."""
        return bool(self.identity(names.RL_LAUNCHER) == RlLauncherValues.RAY)

    @property
    def imported_from(self) -> str:
        """What the run was imported from, in words; empty for one that was recorded."""
        return str((self.manifest or {}).get("imported_from") or "")

    @property
    def label(self) -> str:
        """Name of this process on the page: its rank, else class, role or service with the process id."""
        worker = self.identity(names.RL_WORKER_NAME)
        if self.rank is not None:
            return f"{worker} rank {self.rank}" if worker else f"rank {self.rank}"
        what = worker or self.identity(names.RL_ROLE) or self.identity(names.SERVICE_NAME) or "process"
        pid = self.identity(names.PROCESS_PID)
        return f"{what} {pid}" if pid is not None else str(what)

    @property
    def clean_exit(self) -> bool | None:
        """True when the process completed its shutdown; ``None`` without a manifest."""
        return None if self.manifest is None else self.manifest.get("clean_exit") is True

    @property
    def lifetime(self) -> Lifetime | None:
        """What names the process on its machine; ``None`` where the manifest has none."""
        value = (self.manifest or {}).get("lifetime")
        parts = value if isinstance(value, list) else []
        if len(parts) != len(Lifetime._fields) or not isinstance(parts[0], str):
            return None
        return Lifetime(*parts) if all(int_or_none(part) is not None for part in parts[1:]) else None

    def number(self, key: str) -> int | None:
        """Return an integer of the manifest, ``None`` when absent."""
        value = (self.manifest or {}).get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and integer(value) == value else None

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping of the manifest, empty when absent."""
        value = (self.manifest or {}).get(key)
        return value if isinstance(value, dict) else {}

    def saw(self, start: int, end: int) -> None:
        """Widen the observed time range (ns since the epoch); 0 means unknown."""
        if start and (not self.first or start < self.first):
            self.first = start
        self.last = max(self.last, end)


@lru_cache(maxsize=100)
def _attempt(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) <= _DIGITS for part in parts) else ()


def from_folder(folder: Path) -> Process:
    """Return the process whose files lie in ``folder``, with its manifest if that can be read."""
    process = Process(key=folder.name)
    bring_up_to_date(process, folder)
    return process


def bring_up_to_date(process: Process, folder: Path) -> None:
    """Read the manifest and the exit status in ``folder`` again; a manifest that is gone stays as it was."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        process.manifest_error = "no manifest was written" if process.manifest is None else ""
    except (OSError, ValueError, RecursionError) as error:
        process.manifest_error = f"its manifest cannot be read ({type(error).__name__})"
    else:
        if isinstance(content, dict):
            process.manifest, process.manifest_error = content, ""
            _read_exit_status(process, folder)
        else:
            process.manifest_error = "its manifest is not a JSON object"


def _read_exit_status(process: Process, folder: Path) -> None:
    with suppress(OSError):
        process.exit_status = exit_status.read(folder)
        process.was_ending = True


class ProcessRegistry:
    """Finds the process behind a resource, for files that hold several processes."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}

    def of(self, resource: Attributes) -> Process:
        """Return the process with this resource; the same one for every resource that names the same instance."""
        instance = resource.get(names.SERVICE_INSTANCE_ID)
        parts = (instance,) if instance else (resource.get(key) for key in _FALLBACK_IDENTITY)
        key = "/".join(str(part) for part in (resource.get(names.SERVICE_NAME), *parts))
        process = self.processes.get(key)
        if process is None:
            process = self.processes[key] = Process(key=key)
        process.resource.update(resource)
        return process

    def finder(self, owner: Process | None) -> Callable[[Attributes], Process]:
        """Return a function from a resource to its process: always ``owner`` for a file that belongs to one process."""
        if owner is None:
            return self.of

        def of_folder(resource: Attributes) -> Process:
            owner.resource.update(resource)
            return owner

        return of_folder


_FALLBACK_IDENTITY = (names.RL_RUN_ID, names.RL_ROLE, names.RL_RANK, names.HOST_NAME, names.PROCESS_PID)
