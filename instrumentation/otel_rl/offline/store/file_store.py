"""Bounded, rotated files of one process: whole lines or nothing, never more than allowed, never the program's problem.

What cannot be written is dropped, counted by reason (``store_full``, ``disk_full``, ``store_unwritable``) and told once
on stderr. Every process, forked children too, writes to a directory of its own.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.offline.store import manifest
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SIGNALS = ("traces", "metrics", "logs")
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class FileStore:
    """The directory of one process and the file that each signal is appended to.

    Nothing is created before the first :meth:`write`.

    Args:
        root: The data directory, absolute.
        place: Gives the process' directory below ``root``, as ``<run id>/<name>``; asked when it is created.
        describe: Gives the manifest's content, ``format`` excepted.
        file_limit: Bytes after which a file is followed by the next one.
        total_limit: Bytes that this process may write in all.
        warn: Receives the one line that says why data is dropped.
    """

    def __init__(
        self,
        root: str,
        place: Callable[[], str],
        describe: Callable[[], Mapping[str, Any]],
        *,
        file_limit: int,
        total_limit: int,
        warn: Callable[[str], None],
    ) -> None:
        self._root = Path(root)
        self._place = place
        self._describe = describe
        self._file_limit = file_limit
        self._total_limit = total_limit
        self._warn = warn
        self.reset()

    def reset(self) -> None:
        """Begin anew: a forked child gets a directory of its own."""
        for file in getattr(self, "_files", {}).values():
            file.close()
        self._lock = threading.Lock()
        self._files: dict[str, _RotatingFile] = {}
        self.directory: Path | None = None
        self._written = 0
        self._warned = False

    def write(self, signal: str, line: bytes, items: int) -> bool:
        """Append one line (without its newline) that carries ``items``; False where they were dropped."""
        data = line + b"\n"
        with self._lock:
            if self._written + len(data) > self._total_limit:
                self._drop(signal, "store_full", items, None)
                return False
            try:
                self._file(signal).append(data)
            except OSError as error:
                reason = "disk_full" if error.errno in _DISK_FULL else "store_unwritable"
                self._drop(signal, reason, items, error)
                return False
            self._written += len(data)
            return True

    def _file(self, signal: str) -> _RotatingFile:
        directory = self.directory or self._create()
        if signal not in self._files:
            self._files[signal] = _RotatingFile(directory, signal, self._file_limit)
        return self._files[signal]

    def _create(self) -> Path:
        made_root = _make_directory(self._root)
        directory = self._root / self._place()
        made_run = _make_directory(directory.parent)
        _make_directory(directory)
        # A directory that was there before may hold the user's own things: only what we made is hidden from git.
        if made_root:
            _hide_from_git(self._root)
        elif made_run and not (self._root / ".gitignore").exists():
            _hide_from_git(directory.parent)
        manifest.write(directory, self._describe())
        self.directory = directory
        return directory

    def _drop(self, signal: str, reason: str, items: int, error: OSError | None) -> None:
        drops.count(signal, reason, items)
        if self._warned:
            return
        self._warned = True
        if error is None:
            self._warn(
                f"otel-rl: {self.directory or self._root} holds OTEL_RL_DATA_MAX_BYTES={self._total_limit} bytes of"
                " this process; what comes now is dropped and counted; raise the limit or use a collector"
            )
        else:
            self._warn(
                f"otel-rl: cannot write to {self._root} ({os.strerror(error.errno or 0)}); telemetry is dropped and"
                " counted until that works; set OTEL_RL_DATA_DIR to a directory with space that can be written"
            )

    def refresh_manifest(self) -> None:
        """Write the manifest again, if there is one: the identity has been completed, or the process ends."""
        with self._lock:
            if self.directory is not None:
                try:
                    manifest.write(self.directory, self._describe())
                except OSError as error:
                    self._drop("metrics", "store_unwritable", 0, error)

    def close(self) -> None:
        """Close the files; a later write opens the next one."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


class _RotatingFile:
    """``<signal>-0001.jsonl`` and its successors."""

    def __init__(self, directory: Path, signal: str, limit: int) -> None:
        self._directory = directory
        self._signal = signal
        self._limit = limit
        self._number = 0
        self._descriptor: int | None = None
        self._size = 0

    def append(self, data: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None or (self._size and self._size + len(data) > self._limit):
            descriptor = self._next()
        written = 0
        try:
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError:
            # Part of a line would make the file invalid for every reader: take it back.
            os.ftruncate(descriptor, self._size)
            raise
        self._size += len(data)

    def _next(self) -> int:
        number = self._number + 1
        path = self._directory / f"{self._signal}-{number:04d}.jsonl"
        while path.exists():
            number += 1
            path = self._directory / f"{self._signal}-{number:04d}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _FILE_MODE)
        self.close()
        self._descriptor, self._number, self._size = descriptor, number, 0
        return descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _make_directory(path: Path) -> bool:
    """Make ``path`` readable by its owner only; True when it was not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(_DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return False
    return True


def _hide_from_git(directory: Path) -> None:
    descriptor = os.open(directory / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write("*\n")
