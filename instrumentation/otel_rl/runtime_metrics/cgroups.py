"""Memory of the control group that the process is in: usage, limit, and what the kernel counted.

Both versions of control groups: https://docs.kernel.org/admin-guide/cgroup-v2.html and ``cgroup-v1/memory.html``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")
#: Smallest value of version 1 that means no limit: the kernel writes the largest number of pages.
_NO_LIMIT = 1 << 60
#: Event of version 2 -> of ours. ``low`` is no trouble of this group.
_EVENTS = ("high", "max", "oom", "oom_kill")


class Files(NamedTuple):
    """Names of the files of one version."""

    usage: str
    limit: str


_V1 = Files("memory.usage_in_bytes", "memory.limit_in_bytes")
_V2 = Files("memory.current", "memory.max")


class MemoryGroup:
    """The control group of the process; ``root`` and ``own`` are other places in tests."""

    def __init__(self, root: Path = ROOT, own: Path = SELF) -> None:
        self._files, self._directory, self._top = _V2, root, root
        for line in _lines(own):
            number, controllers, path = (*line.split(":", 2), "", "")[:3]
            if "memory" in controllers.split(","):
                self._files, self._top = _V1, root / "memory"
                break
            if number == "0":
                self._place(path)
        if self._files is _V1:
            self._place(path)
        #: Whether the process has a memory group whose files can be read: False where none is mounted.
        self.exists = (self._directory / self._files.usage).exists()

    def _place(self, path: str) -> None:
        """Set the folder of the group; inside a container the mount itself may be the group."""
        folder = self._top / path.lstrip("/")
        self._directory = folder if (folder / self._files.usage).exists() else self._top

    @property
    def usage(self) -> int | None:
        """Bytes, caches of files included."""
        return _read_number(self._directory / self._files.usage)

    @property
    def limit(self) -> int | None:
        """Least limit of the group and of those around it, in bytes; None without one."""
        limits = [_read_number(folder / self._files.limit) for folder in self._folders()]
        return min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)

    @property
    def events(self) -> dict[str, int]:
        """How often each event happened since the group was made."""
        if self._files is _V2:
            counts = _read_table(self._directory / "memory.events")
            return {event: counts[event] for event in _EVENTS if event in counts}
        failures, killed = (
            _read_number(self._directory / "memory.failcnt"),
            _read_table(self._directory / "memory.oom_control"),
        )
        counted = {"max": failures, "oom_kill": killed.get("oom_kill")}
        return {event: number for event, number in counted.items() if number is not None}

    def _folders(self) -> Iterator[Path]:
        folder = self._directory
        yield folder
        while folder != self._top:
            folder = folder.parent
            yield folder


def _lines(path: Path) -> list[str]:
    try:
        # No encoding that would have to be loaded: the process may have changed its root.
        return path.read_bytes().decode(errors="replace").splitlines()
    except OSError:
        return []


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None for a file that is not there, and for ``max``."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _read_table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _lines(path))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}  # noqa: PLR2004 - a pair
