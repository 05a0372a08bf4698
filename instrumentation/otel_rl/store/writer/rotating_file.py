"""The files of one stream: ``<stream>-0001.jsonl`` and its successors, the oldest removed when the stream is full.

A file that is full is compressed: ``<stream>-0001.jsonl.gz``.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from otel_rl.core.guard import remove_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE = 0o600
#: Of gzip: as fast as the lowest one; level 6 takes twice as long and saves an eighth.
_LEVEL = 3
#: Bytes that are compressed at a time: some 10 ms.
_SLICE = 1 << 20
#: The end of a compressed file has the size of the file before in 32 bit, which readers go by.
_LARGEST = (1 << 32) - 1


class Full(Exception):  # noqa: N818 - not an error of anybody's
    """One line is longer than the whole stream may be."""


class Descriptor:
    """The descriptor of a file that we have opened, as long as the number still means that file.

    A program may close every descriptor, as daemons do (``os.closerange``). Then its own files get our numbers.
    """

    def __init__(self, path: Path, *, is_new: bool = True) -> None:
        flags = os.O_CREAT | os.O_EXCL if is_new else 0
        self._number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, FILE_MODE)
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

    def write(self, data: bytes) -> None:
        """Write all of ``data``.

        Raises:
            OSError: as the system says, and where the number is not ours any more.
        """
        written = 0
        while written < len(data):
            number = self.number
            if number is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            written += os.write(number, data[written:])

    def close(self) -> None:
        """Close the file; what is the program's stays open."""
        if self.number is not None:
            self._file = None
            os.close(self._number)


class Compression:
    """Makes ``NAME.gz`` of a file that is full, a slice at a time, and removes the file.

    It is made under another name and renamed: a kill leaves the one or the other, or both, of which readers take the
    file as it was. Nothing is open between two slices: a program may fork, or close all descriptors. Nothing waits for
    the disk, which may take seconds while a checkpoint is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._target = path.with_name(f"{path.name}.gz")
        self._temporary = path.with_name(f".{path.name}.gz.part")
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        self._place = 0
        #: Bytes that were written.
        self.size = 0

    def advance(self) -> Path | None:
        """Compress the next slice; the path of the compressed file once it is whole.

        Raises:
            OSError: as the system says; :meth:`cancel` removes what was written.
        """
        with self._path.open("rb", buffering=0) as source:
            status = os.fstat(source.fileno())
            if not self._place:
                self._check_room(status.st_size)
            source.seek(self._place)
            data = source.read(_SLICE)
        is_whole = not data
        self._append(self._compressor.compress(data) if data else self._compressor.flush())
        self._place += len(data)
        if not is_whole:
            return None
        # The end of a process is seen by these times where nothing else says it.
        os.utime(self._temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        replace_file(self._temporary, self._target)
        try:
            remove_file(self._path)
        except OSError:
            remove_file(self._target)
            raise
        return self._target

    def _check_room(self, size: int) -> None:
        if size > _LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        disk = os.statvfs(self._path.parent)
        # The program needs what is left of a disk that is nearly full.
        if disk.f_bavail * disk.f_frsize < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _append(self, data: bytes) -> None:
        file = Descriptor(self._temporary, is_new=not self._place)
        try:
            file.write(data)
            self.size += len(data)
        finally:
            file.close()

    def cancel(self) -> None:
        """Remove what was written; the file stays as it is."""
        with suppress(OSError):
            remove_file(self._temporary)


@dataclass
class _OpenFile:
    path: Path
    size: int = 0
    items: int = 0
    #: Compressed, or it cannot be.
    is_final: bool = False


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
        self._compression: Compression | None = None
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
        while len(self._files) > 1 and self._size() + needed > self._total_limit:
            if self._compression is not None and self._next_full() is self._files[0]:
                self.cancel_compression()
            remove_file(self._files[0].path)
            removed += self._files.popleft().items
        return removed

    def _size(self) -> int:
        unfinished = self._compression.size if self._compression is not None else 0
        return sum(file.size for file in self._files) + unfinished

    def compress(self) -> bool:
        """Compress a slice of the oldest file that is full; False where there is none.

        A file that cannot be compressed stays as it is.
        """
        file = self._next_full()
        if file is None:
            return False
        if self._compression is None:
            self._compression = Compression(file.path)
        try:
            compressed = self._compression.advance()
        except OSError:
            self.cancel_compression()
            file.is_final = True
            return True
        if compressed is not None:
            file.path, file.size, file.is_final = compressed, self._compression.size, True
            self._compression = None
        return True

    def _next_full(self) -> _OpenFile | None:
        return next((file for file in islice(self._files, max(len(self._files) - 1, 0)) if not file.is_final), None)

    def cancel_compression(self) -> None:
        """Give up what is being compressed; :meth:`compress` begins it anew."""
        if self._compression is not None:
            self._compression.cancel()
            self._compression = None

    def _begin(self) -> _OpenFile:
        number = self._number + 1
        while (path := self._path(number)).exists() or path.with_name(f"{path.name}.gz").exists():
            number += 1
        descriptor = Descriptor(path)
        self.close()
        self.descriptor, self._number = descriptor, number
        self._files.append(_OpenFile(path))
        return self._files[-1]

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._stream}-{number:04d}.jsonl"

    def close(self) -> None:
        """Close the current file; the next line begins another one."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            descriptor.close()
