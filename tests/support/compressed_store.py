"""Files of a recorded run as the file store leaves them when they are full: several of each stream, compressed."""

from __future__ import annotations

import gzip
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def rotate(run: Path, number: int = 4) -> Path:
    """Write each file of the run again as so many; return the run."""
    for path in sorted(run.rglob("*-0001.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        size = -(-len(lines) // number)
        for index in range(number):
            part = path.with_name(path.name.replace("0001", f"{index + 1:04d}"))
            part.write_bytes(b"".join(lines[index * size : (index + 1) * size]))
    return run


def compress(path: Path) -> Path:
    """Put ``NAME.gz`` in the place of a file."""
    compressed = path.with_name(f"{path.name}.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes(), 1))
    path.unlink()
    return compressed


def compress_all(run: Path) -> list[Path]:
    """Compress every file of the run but the last one of each stream."""
    files = sorted(run.rglob("*-*.jsonl"))
    return [
        compress(path)
        for path, after in itertools.pairwise(files)
        if path.name.rpartition("-")[0] == after.name.rpartition("-")[0] and path.parent == after.parent
    ]
