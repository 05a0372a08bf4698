"""The files of one stream: ``<stream>-0001.jsonl`` and its successors, the oldest removed when the stream is full."""

from __future__ import annotations

import errno
import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE = 0o600


class Full(Exception):  # noqa: N818 - not an error of anybody's
    """One line is longer than the whole stream may be."""


class Descriptor:
    """The descriptor of a file that we have opened, as long as the number still means that file.

    A program may close every descriptor, as daemons do (``os.closerange``). Then its own files get our numbers.
    """

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        self._file = self._now()

    def _now(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self._number)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @property
    def is_removed(self) -> bool:
        """True where somebody has removed the file: what is written to it reaches no reader."""
        try:
            return self.number is not None and os.fstat(self._number).st_nlink == 0
        except OSError:
            return False

    @property
    def number(self) -> int | None:
        """The number to write to; None when it is the program's, or closed."""
        return self._number if self._file is not None and self._now() == self._file else None

    def close(self) -> None:
        """Close the file; what is the program's stays open."""
        if self.number is not None:
            self._file = None
            os.close(self._number)


@dataclass
class _OpenFile:
    path: Path
    size: int = 0
    items: int = 0


class RotatingFile:
    """Appends lines, begins a new file at ``file_limit`` bytes, and keeps ``total_limit`` bytes in all."""

    def __init__(self, directory: Path, stream: str, file_limit: int, total_limit: int) -> None:
        self._directory = directory
        self._stream = stream
        self._file_limit = file_limit
        self._total_limit = total_limit
        self._files: deque[_OpenFile] = deque()
        self._number = 0
        self._removed_by_others = 0
        self.descriptor: Descriptor | None = None

    def append(self, data: bytes, items: int) -> int:
        """Append ``data`` whole or not at all; the number of items that were removed to make room.

        Raises:
            Full: ``data`` alone exceeds the bound of the stream.
            OSError: as the system says.
        """
        if len(data) > self._total_limit:
            raise Full
        if self.descriptor is not None and self.descriptor.is_removed:
            self._removed_by_others += self._files.pop().items
            self.close()
        current = self._files[-1] if self._files else None
        is_full = current is not None and current.size and current.size + len(data) > self._file_limit
        if current is None or is_full or self._number_now() is None:
            current = self._begin()
        removed = self._make_room(len(data))
        try:
            self._write(current, data)
        except OSError as error:
            # RLIMIT_FSIZE bounds one file: the next one has room, unless this one was empty.
            if error.errno != errno.EFBIG or not current.size:
                raise
            current = self._begin()
            self._write(current, data)
        current.items += items
        return removed

    @property
    def items(self) -> int:
        """Items in all files."""
        return sum(file.items for file in self._files)

    def take_removed(self) -> int:
        """Return how many items somebody has removed with their file since the last call."""
        removed, self._removed_by_others = self._removed_by_others, 0
        return removed

    def _number_now(self) -> int | None:
        return None if self.descriptor is None else self.descriptor.number

    def _write(self, file: _OpenFile, data: bytes) -> None:
        descriptor, written = self._number_now(), 0
        if descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        try:
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError:
            # Part of a line would make the file invalid for every reader: take it back.
            os.ftruncate(descriptor, file.size)
            raise
        file.size += len(data)

    def _make_room(self, needed: int) -> int:
        removed = 0
        while len(self._files) > 1 and sum(file.size for file in self._files) + needed > self._total_limit:
            self._files[0].path.unlink(missing_ok=True)
            removed += self._files.popleft().items
        return removed

    def _begin(self) -> _OpenFile:
        number = self._number + 1
        path = self._directory / f"{self._stream}-{number:04d}.jsonl"
        while path.exists():
            number += 1
            path = self._directory / f"{self._stream}-{number:04d}.jsonl"
        descriptor = Descriptor(path)
        self.close()
        self.descriptor, self._number = descriptor, number
        self._files.append(_OpenFile(path))
        return self._files[-1]

    def close(self) -> None:
        """Close the current file; the next line begins another one."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            descriptor.close()
