"""Reads a run while it is written: what has been appended since the last time.

    reader = FollowingReader(find_run(path))
    while ...:
        for record in reader.appended():
            ...

Within each process and signal records come in the order in which :class:`~otel_rl.store.reader.Reader` yields them. A
failed span is in another file than the span around it, and the two are not written at the same moment: what is younger
than :data:`DISORDER` waits for the other file. :meth:`FollowingReader.take_waiting` gives it to whoever needs all.

Files are polled: shared file systems send no events. They are known by their inode, since a collector moves a file that
is full to another name.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv.attributes import RL_LOOP_ITERATION
from otel_rl.store.reader import Reader, moment
from otel_rl.store.reader.lines import MAX_LINE_BYTES, parse
from otel_rl.store.reader.locate import look_again, stream_of
from otel_rl.store.reader.records import Log, Span
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.store.reader.locate import RunSource, SignalFile
    from otel_rl.store.reader.records import Record

#: Seconds for which a record waits for those of the other files of its process and signal.
DISORDER = 15.0
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

    @property
    def left(self) -> int:
        """Bytes that are still to be read."""
        skipped = max(self.skip_to - max(self.offset, _BEGINNING), 0) if self.offset < self.skip_to else 0
        return max(self.size - self.offset - skipped, 0)

    def whole_lines(self) -> list[tuple[int, bytes]]:
        """Return the next lines and where each begins; none at the end, where half a line may stand.

        Raises:
            OSError: the file cannot be read.
        """
        if self.offset >= self.size:
            return []
        lines: list[tuple[int, bytes]] = []
        with self.file.path.open("rb") as stream:
            if self.skip_to > self.offset >= self._beginning:
                # This is within a line, mostly: the rest of it is left out.
                stream.seek(self.skip_to - 1)
                self.offset = self.skip_to - 1 + len(stream.readline(MAX_LINE_BYTES))
            stream.seek(self.offset)
            end = self.offset + _CHUNK
            while self.offset < end and (line := stream.readline(MAX_LINE_BYTES)):
                if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    break
                lines.append((self.offset, line))
                self.offset += len(line)
                if self.skip_to > self.offset >= self._beginning:
                    break
        return lines

    @property
    def begins_apart(self) -> bool:
        """True where nothing is read of what is between the beginning and the end."""
        return self.skip_to > self._beginning

    @property
    def _beginning(self) -> int:
        return _BEGINNING if self.file.signal == "logs" else 0


class _GrowingStream:
    """The files of one process and signal, or of one collector, one after the other; what failed is another stream."""

    def __init__(self) -> None:
        self.files: list[_GrowingFile] = []
        self.records: deque[Record] = deque()

    @property
    def left(self) -> int:
        """Bytes that are still to be read."""
        return sum(file.left for file in self.files)


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
        self._files: dict[tuple[int, int], _GrowingFile] = {}
        #: Process, or "" for collectors, and signal -> the streams that are written together.
        self._groups: dict[tuple[str, str], dict[object, _GrowingStream]] = {}
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
        return sum(stream.left for streams in self._groups.values() for stream in streams.values())

    @property
    def begins_late(self) -> bool:
        """True where only the end of files was read."""
        return any(file.skip_to for file in self._files.values())

    def appended(self) -> Iterator[Record]:
        """Yield the records that can be read by now; who stops in between goes on there with the next call."""
        # On a shared file system a look at the files of many processes takes longer than to read what a caller wants.
        if self._is_current or time.monotonic() - self._looked >= _LOOK:
            self._look()
        # Of the reader's clock: of a writer whose clock is behind, nothing waits.
        settled = time.time_ns() - int(DISORDER * 1e9)
        for (_, signal), streams in list(self._groups.items()):
            # Points have no file of failures.
            yield from self._merged(streams, None if signal == "metrics" else settled)
        self._is_current = True

    def take_waiting(self) -> Iterator[Record]:
        """Yield the records that wait for others: for a last look, after which the reader is of no use.

        Half a line at the end of a file that does not grow counts as cut off.
        """
        for streams in list(self._groups.values()):
            yield from self._merged(streams, None)
        for file in self._files.values():
            if file.left and time.monotonic() - file.grew > DISORDER:
                self._count(Unreadable(cut_off=1), file.file)

    def traces(self, trace_ids: set[str]) -> Iterator[Span]:
        """All spans of a few traces; only lines that have some of them are read again."""
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
            try:
                status = file.path.stat()
            except OSError:
                continue
            there.append(file)
            known = self._files.get((status.st_dev, status.st_ino))
            if known is None:
                known = self._files[status.st_dev, status.st_ino] = _GrowingFile(file)
                self._group(file).files.append(known)
            known.file = file
            if status.st_size != known.size:
                if status.st_size < known.offset:
                    # It was emptied, and is written anew.
                    known.offset, known.skip_to, known.index = 0, 0, []
                known.size, known.grew = status.st_size, time.monotonic()
        self.source.files[:] = there
        if self._newest is not None:
            self._skip(self._newest)
            self._newest = None
        self._looked = time.monotonic()

    def _group(self, file: SignalFile) -> _GrowingStream:
        owner = "" if file.process is None else file.process.key
        streams = self._groups.setdefault((owner, file.signal), {})
        return streams.setdefault(stream_of(file), _GrowingStream())

    def _skip(self, newest: int) -> None:
        """Begin so many bytes before the end of each stream."""
        for streams in self._groups.values():
            for stream in streams.values():
                left = newest
                for file in reversed(stream.files):
                    file.skip_to = max(file.size - left, 0)
                    left = max(left - file.size, 0)

    # -- records ---------------------------------------------------------------------------------------------------

    def _merged(self, streams: dict[object, _GrowingStream], settled: int | None) -> Iterator[Record]:
        """Yield records of streams that belong together, the earliest first, while none can come before it."""
        while True:
            heads = [stream for stream in streams.values() if self._fill(stream)]
            if not heads:
                return
            first = min(heads, key=lambda stream: moment(stream.records[0]))
            is_known_first = len(heads) == len(streams) > 1
            if not is_known_first and settled is not None and moment(first.records[0])[0] > settled:
                return
            yield first.records.popleft()

    def _fill(self, stream: _GrowingStream) -> bool:
        """Read on where no record waits; return whether one does."""
        for file in stream.files:
            while not stream.records and self._read_on(stream, file):
                pass
        return bool(stream.records)

    def _read_on(self, stream: _GrowingStream, file: _GrowingFile) -> bool:
        """Read some lines of a file; return whether there were any."""
        problems = Unreadable()
        try:
            lines = file.whole_lines()
        except FileNotFoundError:
            # Moved since it was looked at, or deleted: the next look tells.
            return False
        except OSError as error:
            problems.errors.append(f"{file.file.path}: {error.strerror or error}")
            file.offset, lines = file.size, []
        for offset, line in lines:
            self.read += len(line)
            request = parse(line, problems)
            found = list(self._of_this_run(request, file.file)) if request is not None else []
            if file.begins_apart and offset < file.skip_to:
                # Beside the last steps the first ones would look like those just before.
                found = [record for record in found if not _is_of_a_step(record)]
            stream.records.extend(found)
            if traces := {_hashed(record.trace_id) for record in found if isinstance(record, Span)}:
                file.index.append(_Line(offset, array("I", traces)))
        self._count(problems, file.file)
        return bool(lines)


def _is_of_a_step(record: Record) -> bool:
    return isinstance(record, Log) and RL_LOOP_ITERATION in record.attributes


def _hashed(trace_id: str) -> int:
    return hash(trace_id) & _BITS


def _lines_at(file: _GrowingFile, places: Iterable[int]) -> Iterator[bytes]:
    try:
        with file.file.path.open("rb") as stream:
            for place in places:
                stream.seek(place)
                yield stream.readline(MAX_LINE_BYTES)
    except OSError:
        return
