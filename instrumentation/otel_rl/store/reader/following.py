"""Reads a run while it is written: what has been appended since the last time.

    reader = FollowingReader(find_run(path))
    while ...:
        for record in reader.appended():
            ...

Files are polled: shared file systems send no events. Those of a collector are known by their inode, since it moves a
file that is full to another name; those of the file store by their name, since one that is full is compressed.
"""

from __future__ import annotations

import errno
import time
from array import array
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from otel_rl.semconv.attributes import RL_LOOP_ITERATION
from otel_rl.store.reader import Reader
from otel_rl.store.reader.compressed import former, is_compressed, opened, present
from otel_rl.store.reader.lines import MAX_LINE_BYTES, parse, size
from otel_rl.store.reader.locate import look_again, stream_of
from otel_rl.store.reader.records import Log, Span
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from otel_rl.store.reader.locate import RunSource, SignalFile
    from otel_rl.store.reader.records import Record

#: Seconds without growth from which on half a line at the end of a file counts as cut off.
_STILL = 15.0
#: Seconds after a look at the files in which it is not repeated while there is more to read.
_LOOK = 1.0
#: Bytes that are read of a file at once, and of the beginning of a log file where only the end of files is read: what
#: the run is stands there.
_CHUNK, _BEGINNING = 1024 * 1024, 128 * 1024
#: Bits of a trace id that the index of lines keeps; a line with another id of the same bits is read in vain.
_BITS = 0xFFFF_FFFF


class _Line(NamedTuple):
    """Where a line begins, and the traces that it has spans of."""

    offset: int
    traces: array[int]


@dataclass(slots=True)
class _GrowingFile:
    """One file, and how far it has been read."""

    file: SignalFile
    size: int = 0
    offset: int = 0
    #: Where reading goes on after the beginning of the file; 0 where all of it is read.
    skip_to: int = 0
    #: When it was last seen to grow: of the monotonic clock, in s.
    grew: float = 0.0
    index: list[_Line] = field(default_factory=list)
    #: Half a line at its end was counted as cut off.
    is_cut_off: bool = False
    #: It is compressed, so that nothing is appended.
    is_compressed: bool = False
    #: Of a compressed file where reading goes on; None before it begins, and at the end.
    _stream: BinaryIO | None = None
    _has_ended: bool = False

    def look(self, status: os.stat_result) -> None:
        """Take in that the file is longer, was emptied, or has been compressed."""
        if is_compressed(self.file.path):
            if not self.is_compressed:
                length = size(self.file.path)
                self.is_compressed, self.size = True, max(length, self.offset)
                if length == self.offset > 0:
                    self.end()
            return
        if status.st_size != self.size:
            if status.st_size < self.offset:
                # It was emptied, and is written anew.
                self.offset, self.skip_to, self.index = 0, 0, []
            self.size, self.grew = status.st_size, time.monotonic()

    @property
    def left(self) -> int:
        """Bytes that are still to be read."""
        skipped = max(self.skip_to - max(self.offset, _BEGINNING), 0) if self.offset < self.skip_to else 0
        # The size of a compressed file that is cut off is not known.
        return max(self.size - self.offset - skipped, int(self.is_compressed and not self._has_ended))

    def whole_lines(self) -> list[tuple[int, bytes]]:
        """Return the next lines and where each begins; none at the end, where half a line may stand.

        Raises:
            OSError: the file cannot be read.
        """
        lines: list[tuple[int, bytes]] = []
        if self.is_compressed and 0 < self.size <= self.skip_to and self.offset >= self._beginning:
            self.end()
        if self._has_ended if self.is_compressed else self.offset >= self.size:
            return lines
        with self._opened() as stream:
            try:
                self._read(stream, lines)
            except OSError:
                # What is before the place where compressed data is cut off counts; the next call raises it again.
                if not lines:
                    raise
        return lines

    def _opened(self) -> AbstractContextManager[BinaryIO]:
        if not self.is_compressed:
            return opened(self.file.path)
        # To begin anew each time would decompress all that was read before.
        self._stream = self._stream or opened(self.file.path)
        return nullcontext(self._stream)

    def _read(self, stream: BinaryIO, lines: list[tuple[int, bytes]]) -> None:
        if self.skip_to > self.offset >= self._beginning:
            # This is within a line, mostly: the rest of it is left out.
            stream.seek(self.skip_to - 1)
            self.offset = self.skip_to - 1 + len(stream.readline(MAX_LINE_BYTES))
        if stream.tell() != self.offset:
            stream.seek(self.offset)
        end = self.offset + _CHUNK
        while self.offset < end:
            line = stream.readline(MAX_LINE_BYTES)
            if self.is_compressed and not line:
                self.end()
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                return
            lines.append((self.offset, line))
            self.offset += len(line)
            if self.skip_to > self.offset >= self._beginning:
                return

    def end(self) -> None:
        """Read nothing more of it."""
        self.offset = self.size = max(self.size, self.offset)
        self._stream, self._has_ended = None, self.is_compressed

    @property
    def begins_apart(self) -> bool:
        """True where nothing is read of what is between the beginning and the end."""
        return self.skip_to > self._beginning

    @property
    def _beginning(self) -> int:
        return _BEGINNING if self.file.signal == "logs" else 0


class FollowingReader(Reader):
    """Reads what has been appended since, again and again; see :class:`~otel_rl.store.reader.Reader` for the rest.

    Args:
        source: the run; its processes and files are brought up to date.
        newest: bytes at the end of each stream of files to begin with, and what the run says of itself in its first
            log records; None for all of it.
    """

    def __init__(self, source: RunSource, newest: int | None = None) -> None:
        super().__init__(source)
        self._newest = newest
        #: By inode, or the name before it was compressed.
        self._files: dict[object, _GrowingFile] = {}
        #: Records of lines that were read, of which not all were taken.
        self._pending: deque[Record] = deque()
        #: True where the run's folder is not there any more.
        self.is_gone = False
        #: Bytes that were read.
        self.read = 0
        #: When the files were looked at last, of the monotonic clock; True where all that was there then was read.
        self._looked, self._is_current = 0.0, False
        self._look()

    @property
    def left(self) -> int:
        """Bytes that are still to be read, as far as the files were looked at."""
        return sum(file.left for file in self._files.values())

    def appended(self) -> Iterator[Record]:
        """Yield the records that can be read by now; who stops in between goes on there with the next call."""
        # On a shared file system a look at the files of many processes takes longer than to read what a caller wants.
        if self._is_current or time.monotonic() - self._looked >= _LOOK:
            self._look()
        for file in list(self._files.values()):
            while self._pending or self._read_on(file):
                while self._pending:
                    yield self._pending.popleft()
        self._is_current = True

    def count_cut_off(self) -> None:
        """Count half a line at the end of a file that does not grow as cut off, for as long as it does not."""
        for file in self._files.values():
            is_cut_off = file.left > 0 and time.monotonic() - file.grew > _STILL
            self._count(Unreadable(cut_off=is_cut_off - file.is_cut_off), file.file)
            file.is_cut_off = is_cut_off

    def traces(self, trace_ids: set[str], problems: Unreadable | None = None) -> Iterator[Span]:
        """All spans of a few traces; only lines that have some of them are read again, and :meth:`records` has told."""
        wanted = {_hashed(trace) for trace in trace_ids}
        for file in self._files.values():
            places = [line.offset for line in file.index if not wanted.isdisjoint(line.traces)]
            for line in _lines_at(file, places):
                request = parse(line, Unreadable())
                if request is not None:
                    yield from self._spans(request, file.file, trace_ids)

    # -- files -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Look for files that are new, longer, moved or gone."""
        self.is_gone = not self.source.path.is_dir()
        if self.is_gone:
            return
        look_again(self.source)
        there = []
        self._is_current = False
        for file in self.source.files:
            if (status := _status(file)) is not None:
                there.append(file)
                self._known(file, status).look(status)
        self.source.files[:] = there
        if self._newest is not None:
            self._skip(self._newest)
            self._newest = None
        self._looked = time.monotonic()

    def _known(self, file: SignalFile, status: os.stat_result) -> _GrowingFile:
        key = (status.st_dev, status.st_ino) if file.process is None else former(file.path)
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = _GrowingFile(file)
        known.file = file
        return known

    def _skip(self, newest: int) -> None:
        """Begin so many bytes before the end of each stream of files."""
        left: dict[object, int] = {}
        for file in reversed(self._files.values()):
            owner = "" if file.file.process is None else file.file.process.key
            stream = owner, file.file.signal, stream_of(file.file)
            rest = left.setdefault(stream, newest)
            file.skip_to = max(file.size - rest, 0)
            left[stream] = max(rest - file.size, 0)

    # -- records ---------------------------------------------------------------------------------------------------

    def _read_on(self, file: _GrowingFile) -> bool:
        """Read some lines of a file; return whether there were any."""
        problems = Unreadable()
        try:
            lines = file.whole_lines()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                # Moved since it was looked at, compressed, or deleted: the next look tells.
                return False
            problems.errors.append(f"{file.file.path}: {error.strerror or error}")
            file.end()
            lines = []
        for offset, line in lines:
            self.read += len(line)
            request = parse(line, problems)
            found = list(self._of_this_run(request, file.file)) if request is not None else []
            if file.begins_apart and offset < file.skip_to:
                # Beside the last steps the first ones would look like those just before.
                found = [record for record in found if not _is_of_a_step(record)]
            self._pending.extend(found)
            if traces := {_hashed(record.trace_id) for record in found if isinstance(record, Span)}:
                file.index.append(_Line(offset, array("I", traces)))
        self._count(problems, file.file)
        return bool(lines)


def _status(file: SignalFile) -> os.stat_result | None:
    """Return what the system knows of a file, which may have been compressed just now; None where it is gone."""
    try:
        return file.path.stat()
    except OSError:
        file.path = present(file.path)
    try:
        return file.path.stat()
    except OSError:
        return None


def _is_of_a_step(record: Record) -> bool:
    return isinstance(record, Log) and RL_LOOP_ITERATION in record.attributes


def _hashed(trace_id: str) -> int:
    return hash(trace_id) & _BITS


def _lines_at(file: _GrowingFile, places: Iterable[int]) -> Iterator[bytes]:
    try:
        with opened(file.file.path) as stream:
            for place in places:
                stream.seek(place)
                yield stream.readline(MAX_LINE_BYTES)
    except OSError:
        return
