"""The folder in which the tables of a run lie: on a disk, never in memory that looks like one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: File systems that are memory.
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_MOUNTS = Path("/proc/self/mountinfo")


def folder(beside: Path | None = None) -> Path:
    """Return the first folder that can be written to and lies on a disk: ``beside``, then those for temporary files.

    Without such a folder it is the one that Python takes for temporary files.
    """
    named = os.environ.get("TMPDIR")
    candidates = [beside, named and Path(named), *map(Path, ("/var/tmp", "/tmp", "."))]  # noqa: S108 - asked
    for candidate in candidates:
        if candidate and candidate.is_dir() and os.access(candidate, os.W_OK) and not _is_memory(candidate):
            return candidate
    return Path(tempfile.gettempdir())


def _is_memory(path: Path) -> bool:
    return file_system(path) in _MEMORY


def file_system(path: Path) -> str:
    """Return the type of the file system that holds a path, ``""`` where the system does not say it."""
    resolved = path.resolve()
    best, kind = -1, ""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        # Spaces in the name of a mount point are octal.
        point = Path(fields.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape"))
        if resolved.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), rest.split()[0]
    return kind
