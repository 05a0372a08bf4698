"""The last log records of a run, read from the ends of its files, and those that are appended.

    tail = LogTail(find_run(Path("./otel-rl")))
    for log in tail.last(100):
        ...

A file is read from its end, as far as needed: of a large run the last records cost no more than of a small one. Memory
is that of one line per stream, and of the records that are asked for.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.compressed import former, is_compressed, opened, present
from otel_rl.store.reader.lines import parse, raw_lines, said_of, size
from otel_rl.store.reader.locate import look_again, written_together
from otel_rl.store.reader.otlp import records
from otel_rl.store.reader.processes import ProcessRegistry
from otel_rl.store.reader.records import ERROR_SEVERITY, Log
from otel_rl.store.reader.tails import end_of_lines, lines_from_end
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from otel_rl.store.reader.locate import RunSource, SignalFile
    from otel_rl.store.reader.processes import Process

EXCEPTION = events.RL_PROCESS_EXCEPTION.name
_OURS = ("rl.", "gen_ai.")
#: As the end of a compressed file, to which nothing is appended.
_ALL = sys.maxsize
#: In a text quotes have a backslash before them, so that none of these can be made up.
_OWN_EVENT = re.compile(rb'"eventName":"(?!%b")(?:rl|gen_ai)\.' % re.escape(EXCEPTION).encode())
_ANY_RECORD = b'"observedTimeUnixNano":'
_MAY_BE_ERROR = re.compile(rb'"severityNumber"\s*:\s*"?(?:1[7-9]|2\d|S)')
_TIME = attrgetter("time")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are wanted.

    Attributes:
        rank: of this rank only.
        errors: those of severity ERROR and above, and exceptions that nothing caught.
        events: events of our own schema, too.
    """

    rank: int | None = None
    errors: bool = False
    events: bool = False

    def takes(self, log: Log) -> bool:
        """Return whether it wants the record."""
        is_exception = log.event == EXCEPTION
        return (
            (self.rank is None or log.process.rank == self.rank)
            and (not self.errors or is_exception or log.severity >= ERROR_SEVERITY)
            and (self.events or is_exception or not log.event.startswith(_OURS))
        )

    def may_take(self, line: bytes) -> bool:
        """Return False where nothing in the line can be wanted, as can be seen without parsing it."""
        if self.errors and _MAY_BE_ERROR.search(line) is None:
            return False
        return self.events or len(_OWN_EVENT.findall(line)) != line.count(_ANY_RECORD) or not line.count(_ANY_RECORD)


class LogTail:
    """The log records of a run that are wanted.

    ``problems`` counts the lines that could not be read.
    """

    def __init__(self, source: RunSource, wanted: Wanted) -> None:
        self._source = source
        self._wanted = wanted
        self._registry = ProcessRegistry()
        self.problems = Unreadable()
        self._files = self._wanted_files()
        #: Where in each file the next line begins that :meth:`appended` returns.
        self._ends = {_identity(file): _end_now(file.path) for file in self._files}
        self.problems.cut_off = sum(size(file.path) > self._end(file) for file in self._files)

    def _wanted_files(self) -> list[SignalFile]:
        return [file for file in self._source.files if file.signal == "logs" and self._is_of_rank(file.process)]

    def _is_of_rank(self, process: Process | None) -> bool:
        return self._wanted.rank is None or process is None or process.rank in (self._wanted.rank, None)

    def last(self, number: int) -> list[Log]:
        """Return the last ``number`` records, in the order of their times."""
        streams = (self._from_end(files) for files in self._streams())
        return list(islice(merge(*streams, key=_TIME, reverse=True), number))[::-1]

    def all(self) -> Iterator[Log]:
        """Yield all records, in the order of their times."""
        return merge(*(self._from_begin(files) for files in self._streams()), key=_TIME)

    def appended(self) -> list[Log]:
        """Return what has been appended since the last call, or since this was made, in the order of their times.

        Files that are new are read from their begin.
        """
        look_again(self._source)
        self._files = self._wanted_files()
        return sorted(chain.from_iterable(map(self._new_in, self._files)), key=_TIME)

    def _streams(self) -> Iterator[list[SignalFile]]:
        return chain.from_iterable(written_together(self._files))

    def _from_end(self, files: list[SignalFile]) -> Iterator[Log]:
        for file in reversed(files):
            for logs in self._of_lines(file, lambda file: lines_from_end(file.path, end=self._end(file))):
                yield from reversed(logs)

    def _from_begin(self, files: list[SignalFile]) -> Iterator[Log]:
        for file in files:
            for logs in self._of_lines(file, lambda file: raw_lines(file.path)):
                yield from logs

    def _of_lines(self, file: SignalFile, lines: Callable[[SignalFile], Iterable[bytes]]) -> Iterator[list[Log]]:
        number = 0
        try:
            for line in lines(file):
                number += 1
                yield self._in(line, file)
        except OSError as error:
            self.problems.errors.append(said_of(file.path, error, number))

    def _end(self, file: SignalFile) -> int:
        return self._ends.get(_identity(file), 0)

    def _new_in(self, file: SignalFile) -> list[Log]:
        """Return the records of the whole lines that were appended; half a line is read when it is whole."""
        begin, end = self._end(file), size(file.path)
        if begin in (end, _ALL):
            return []
        # It was emptied, and is written anew.
        begin = begin if begin < end else 0
        try:
            with opened(file.path) as stream:
                stream.seek(begin)
                data = stream.read(end - begin)
        except OSError:
            return []
        *lines, rest = data.split(b"\n")
        self._ends[_identity(file)] = begin + len(data) - len(rest)
        return [log for line in lines for log in self._in(line + b"\n", file)]

    def _in(self, line: bytes, file: SignalFile) -> list[Log]:
        """Return the wanted records of a line, in the order of their times."""
        if not line.endswith(b"\n") or not self._wanted.may_take(line):
            return []
        request = parse(line, self.problems)
        found = records(request, self._registry.finder(file.process)) if request is not None else ()
        logs = (record for record in found if isinstance(record, Log) and self._is_of_run(record.process, file))
        return sorted(filter(self._wanted.takes, logs), key=_TIME)

    def _is_of_run(self, process: Process, file: SignalFile) -> bool:
        if file.process is not None:
            return True
        named = process.resource.get(names.RL_RUN_ID)
        return not self._source.is_mixed if named is None else named == self._source.run_id


def _end_now(path: Path) -> int:
    """Return where the last whole line ends, and of a compressed file :data:`_ALL`."""
    end = 0 if is_compressed(path) else end_of_lines(path)
    # It may have been compressed since it was found, or while it was read.
    return _ALL if is_compressed(present(path)) else end


def _identity(file: SignalFile) -> Path | tuple[int, int] | None:
    """Return what a file keeps when a collector that rotates moves it, or the store compresses it; None without one."""
    if file.process is not None:
        return former(file.path)
    try:
        status = file.path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
