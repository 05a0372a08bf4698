"""``summary.json`` in the folder of a run: what a list shows of it, as the report that was made last has found it."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.store.reader.otlp_values import integer, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "summary.json"
#: A key is removed or changes its meaning only with another number; a reader of another number ignores the file.
FORMAT = "otel-rl-summary/1"
#: Most bytes of one; ours have a few KB.
_MOST = 1 << 20
#: Seconds by which a run may be ahead of its summary: files are written every 5 s.
_BEHIND = 30


class RunSummary:
    """One summary; what it does not have, or has in another form, is empty."""

    def __init__(self, content: Mapping[str, Any], written: int) -> None:
        self._content = dict(content)
        #: When the file was written, by the clock of its file system.
        self.written = written

    def part(self, name: str) -> dict[str, Any]:
        """Return one of the mappings."""
        return mapping_of(self._content, name)

    @property
    def is_final(self) -> bool:
        """True where every process had ended when it was written."""
        return self.part("end").get("is_final") is True

    @property
    def processes(self) -> int:
        """Number of processes that it is of."""
        return integer(self.part("run").get("processes"))

    def is_current(self, last_sign: int) -> bool:
        """Return whether it knows what the run has recorded until ``last_sign``, in ns since the epoch."""
        return (last_sign - integer(self.part("end").get("last_sign_unix_nano"))) / 1e9 <= _BEHIND


def read(folder: Path) -> RunSummary | None:
    """Return the summary in ``folder``; None without one that can be read, and of this format."""
    path = folder / NAME
    try:
        # To open a pipe would wait for somebody who writes into it.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            written = os.fstat(file.fileno()).st_mtime_ns
            content = json.loads(file.read(_MOST))
    except (OSError, ValueError, RecursionError):
        return None
    is_ours = isinstance(content, dict) and content.get("format") == FORMAT
    return RunSummary(content, written) if is_ours else None


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Replace the summary in one step: a reader sees the old one or the new one.

    Raises:
        OSError: the folder cannot be written.
    """
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            json.dump({"format": FORMAT, **content}, file, indent=1, allow_nan=False)
            file.write("\n")
        Path(name).replace(folder / NAME)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
