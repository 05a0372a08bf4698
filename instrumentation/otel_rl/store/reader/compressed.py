"""Files that the store has compressed, read like the file before: places are those of the lines as they were written.

A file is compressed when it is full and its process goes on, so a reader may know it by its former name still.
"""

from __future__ import annotations

import errno
import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_Result = TypeVar("_Result")
_SUFFIX = ".gz"
#: Bytes of compressed data that are read at once, and of lines in a block that is read from the end.
_CHUNK, _BLOCK = 1 << 16, 1 << 22


def is_compressed(path: Path) -> bool:
    """Return whether ``path`` names a compressed file."""
    return path.name.endswith(_SUFFIX)


def former(path: Path) -> Path:
    """Return the name that the file had before it was compressed, or has where it is not."""
    return path.with_name(path.name.removesuffix(_SUFFIX))


def present(path: Path) -> Path:
    """Return ``path``, or what the file is called since it was compressed."""
    if is_compressed(path) or path.exists():
        return path
    compressed = path.with_name(path.name + _SUFFIX)
    return compressed if compressed.exists() else path


def in_either_form(path: Path, use: Callable[[Path], _Result]) -> _Result:
    """Call ``use`` with what the file is called; once more where it was compressed between the look and the use.

    Raises:
        OSError: as ``use`` does.
    """
    name = present(path)
    try:
        return use(name)
    except FileNotFoundError:
        if (now := present(path)) == name:
            raise
        return use(now)


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, compressed or not; of one that is, nothing stays open between two reads.

    Raises:
        OSError: it cannot be opened; reading raises it where compressed data is cut off or damaged.
    """
    return in_either_form(path, _opened)


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Inflated(path), _CHUNK)) if is_compressed(path) else path.open("rb")


def size(path: Path) -> int:
    """Return the bytes of a file, before it was compressed.

    Raises:
        OSError: it cannot be looked at.
    """
    return in_either_form(path, _size)


def _size(path: Path) -> int:
    if not is_compressed(path):
        return path.stat().st_size
    with path.open("rb") as stream:
        # The last four bytes say it (RFC 1952, ISIZE); those of a file that is cut off are others.
        with suppress(OSError):
            stream.seek(-4, io.SEEK_END)
        return int.from_bytes(stream.read(4), "little")


class _Inflated(io.RawIOBase):
    """The content of a compressed file; a seek forwards reads, and one backwards begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._inflater = _new_inflater()
        self._input, self._taken, self._place = b"", 0, 0
        self._error: OSError | None = None

    def copy(self) -> _Inflated:
        """Return a reader of the same place."""
        other = _Inflated(self._path)
        other._inflater = self._inflater.copy()
        other._input, other._taken, other._place = self._input, self._taken, self._place
        return other

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._place
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("seek from the end")
        if offset < self._place:
            self._begin()
        while self._place < offset and self.take(min(offset - self._place, _BLOCK)):
            pass
        return self._place

    def readinto(self, buffer: Any) -> int:
        data = self.take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def take(self, most: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        if self._error is not None:
            raise self._error
        try:
            data = self._inflate(most)
        except OSError as error:
            self._error = error
            raise
        self._place += len(data)
        return data

    def _inflate(self, most: int) -> bytes:
        import zlib  # noqa: PLC0415 - most runs have no compressed file

        while True:
            if self._inflater.eof:
                # Several compressed files may follow each other, as `cat` makes it.
                self._input = self._inflater.unused_data or self._read()
                if not self._input:
                    return b""
                self._inflater = _new_inflater()
            try:
                data: bytes = self._inflater.decompress(self._input, most)
            except zlib.error:
                raise OSError(errno.EIO, "its compressed data is damaged; what is before that was read") from None
            self._input = self._inflater.unconsumed_tail
            if data:
                return data
            if not self._input and not self._inflater.eof and not (data := self._read()):
                raise OSError(errno.EIO, "its compressed data is cut off; what is before that was read")
            self._input = self._input or data

    def _read(self) -> bytes:
        with self._path.open("rb") as stream:
            stream.seek(self._taken)
            data = stream.read(_CHUNK)
        self._taken += len(data)
        return data


def _new_inflater() -> Any:
    import zlib  # noqa: PLC0415 - as above

    return zlib.decompressobj(zlib.MAX_WBITS | 16)


class BlocksFromEnd:
    """The content of a compressed file from its end; memory is that of a block, and a little for each block.

    Attributes:
        length: its bytes, as far as they can be read.
        error: why what is behind cannot be read; None where all can.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        stream = _Inflated(path)
        self._marks: list[_Inflated] = []
        self.error: OSError | None = None
        with path.open("rb"):
            pass
        try:
            while True:
                mark = stream.copy()
                if stream.seek(mark.tell() + _BLOCK) == mark.tell():
                    break
                self._marks.append(mark)
        except OSError as error:
            self.error = error
            self._marks.append(mark)
        self.length = stream.tell()

    def chunks(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield what is between the two places in pieces, the last one first."""
        for mark in reversed(self._marks):
            start = mark.tell()
            if start < end:
                block = _all_of(mark.copy(), min(_BLOCK, self.length - start))
                yield block[max(begin - start, 0) : end - start]
            if start <= begin:
                return


def _all_of(stream: _Inflated, number: int) -> bytes:
    pieces = []
    while number > 0 and (piece := stream.take(number)):
        pieces.append(piece)
        number -= len(piece)
    return b"".join(pieces)
