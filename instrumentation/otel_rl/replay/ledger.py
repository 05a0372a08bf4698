"""The ledger of a replay: one line before each request and one after, on disk before anything else happens.

A request with no line after it, or whose answer did not come, is ambiguous: the destination may have it. It is sent
again. The ledger of each destination lies in the folder of the run, and names files relative to that.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.replay.batches import Batch

SENT, ACKNOWLEDGED, AMBIGUOUS, REFUSED = "sent", "acknowledged", "ambiguous", "refused"
_DIGITS = 8
_LONGEST = 60


class Ledger:
    """What one destination has of the files of a run.

    Raises:
        UnusableInput: it cannot be written, or another replay writes it.
    """

    def __init__(self, folder: Path, destination: str) -> None:
        digest = hashlib.sha256(destination.encode()).hexdigest()[:_DIGITS]
        words = re.sub(r"[^A-Za-z0-9.]+", "-", destination.partition("://")[2] or destination).strip("-")
        self.path = folder / f"replay-{words[:_LONGEST]}-{digest}.jsonl"
        #: File -> begin and end of the parts that need no sending.
        self.acknowledged: dict[str, dict[int, int]] = {}
        #: File, begin and end of the parts that the destination may have.
        self._ambiguous: set[tuple[str, int, int]] = set()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._lock()
            self._read()
            self._write({"destination": destination})
        except OSError as error:
            raise UnusableInput(
                f"{self.path} cannot be written ({error.strerror or error}), and without it a second replay would send"
                " all of it again; copy the folder to where you may write"
            ) from None

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnusableInput(f"another replay of this run to this destination goes on ({self.path})") from None
        except OSError:
            return  # a file system without locks

    def _read(self) -> None:
        with self.path.open("rb") as stream:
            content = stream.read()
        for line in content.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a replay that was killed
            if isinstance(entry, dict) and "state" in entry:
                self._apply(str(entry["state"]), str(entry["file"]), int(entry["begin"]), int(entry["end"]))
        if content and not content.endswith(b"\n"):
            os.write(self._file, b"\n")

    def _apply(self, state: str, file: str, begin: int, end: int) -> None:
        if state == ACKNOWLEDGED:
            self.acknowledged.setdefault(file, {})[begin] = end
        if state in (SENT, AMBIGUOUS):
            self._ambiguous.add((file, begin, end))
        else:
            self._ambiguous.discard((file, begin, end))

    def is_ambiguous(self, batch: Batch) -> bool:
        """Return whether the destination may have a part of the request from an earlier time."""
        return any(
            file == batch.file and begin < batch.end and batch.begin < end for file, begin, end in self._ambiguous
        )

    def note(self, batch: Batch, state: str, **further: Any) -> None:
        """Write down what is about to happen, or has happened.

        Raises:
            OSError: as the system says; nothing may be sent then.
        """
        entry = {"state": state, "file": batch.file, "begin": batch.begin, "end": batch.end, "items": batch.items}
        self._write({**entry, **further})
        self._apply(state, batch.file, batch.begin, batch.end)

    def _write(self, entry: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file; another replay may go on."""
        os.close(self._file)
