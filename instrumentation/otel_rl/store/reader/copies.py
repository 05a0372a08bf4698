"""Finds files that are copies of others, whose records would count twice: people copy a folder to keep it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_COMPARED = 64 * 1024
"""Bytes that are compared at each end. They hold ids and times in ns, which no two files share by chance."""


def find_copies(paths: Iterable[Path]) -> dict[Path, Path]:
    """Map each copy to the file that it is one of, which may have grown since; the first of equal files is none."""
    copies: dict[Path, Path] = {}
    originals: dict[bytes, list[Path]] = {}
    for path in sorted(paths, key=_size, reverse=True):
        with suppress(OSError):
            first, last, end = _ends(path)
            alike = originals.setdefault(first, [])
            original = next((other for other in alike if _bytes_before(end, other, len(last)) == last), None)
            if original is None:
                alike.append(path)
            elif first:
                copies[path] = original
    return copies


def _ends(path: Path) -> tuple[bytes, bytes, int]:
    """Return how a file begins, how its last whole line ends, and where."""
    with path.open("rb") as stream:
        first = stream.readline(_COMPARED)
        begin = max(0, _size(path) - _COMPARED)
        stream.seek(begin)
        read = stream.read(_COMPARED)
    # Half a line at the end of a copy was finished in the original, or cut off there.
    last = read[: read.rfind(b"\n") + 1] or read
    return first, last, begin + len(last)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _bytes_before(end: int, path: Path, number: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(end - number)
        return stream.read(number)
