"""The writer of one ring: a file that is mapped, and what is written into it.

Space is reserved before the file is mapped, and the file is never made shorter. Both would end the program by SIGBUS:
a page that the full file system cannot give, and a page behind the end of the file.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.collective_places import CollectivePlaces
from otel_rl.process.lifetime import own

if TYPE_CHECKING:
    from pathlib import Path

    #: An open operation: begin gives it, end takes it. First the ring, then what this module makes of it.
    Handle = tuple[Any, ...]

_MODE = 0o600
_LARGEST = (1 << 63) - 1
#: A process that finds its file's name taken, by one of a container with the same pid, tries so many others.
_NAMES_TRIED = 10
#: Bytes that must stay free in the file system. In a small `/dev/shm`, as containers have, the program's own shared
#: memory would find no room, which ends it by SIGBUS.
MARGIN = 32 << 20
_STEPS = frozenset({layout.STEP, layout.PHASE})
_COLLECTIVES = frozenset({layout.COLLECTIVE, layout.WAIT})

clock = time.monotonic_ns


class Texts:
    """One table of names in the file."""

    def __init__(self, buffer: mmap.mmap, table: layout.Table) -> None:
        self._buffer = buffer
        self._table = table
        self._text = table.text
        self._codes = {"": 0}
        self._is_full = False
        self._next_code = count(layout.OTHER).__next__
        self.code(layout.OTHER_TEXT)

    def code(self, text: str) -> int:
        """The number of ``text``, a new one as long as there are any."""
        known = self._codes.get(text)
        if known is not None:
            return known
        if self._is_full:
            return layout.OTHER
        # Two threads at once take two.
        code = self._next_code()
        if code >= self._table.length:
            self._is_full = True
            return layout.OTHER
        data = _cut(text, self._text.size - 2)
        # First: what the number refers to must be there before the number is.
        self._text.pack_into(self._buffer, self._table.at + code * self._table.size, len(data), data)
        return self._codes.setdefault(text, code)


class _Entries:
    """Places of operations that are open, and how many are open without one."""

    def __init__(self, first: int, length: int) -> None:
        places = [layout.ENTRIES_AT + (first + place) * layout.ENTRY_SIZE for place in range(length)]
        self.free = places[::-1]
        self.unlisted = 0


class Ring:
    """One mapped file. Operations may begin and end in any thread, and in signal handlers."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self.path = path
        self.buffer = buffer
        self._names = Texts(buffer, layout.NAMES)
        self._groups = Texts(buffer, layout.GROUPS)
        self._operations = Texts(buffer, layout.OPERATIONS)
        self._steps = _Entries(0, layout.STEP_ENTRIES)
        self._calls = _Entries(layout.STEP_ENTRIES, layout.CALL_ENTRIES)
        self._next_begin, self._next_record = count(1).__next__, count(1).__next__
        self.places = CollectivePlaces(buffer)
        self._describe()
        # Last: before this no reader takes the file for a ring.
        layout.FORMAT.pack_into(buffer, layout.FORMAT_AT, layout.MAGIC, layout.VERSION, *layout.SIZES)

    def _describe(self) -> None:
        lifetime = own()
        layout.LIFETIME.pack_into(
            self.buffer,
            layout.LIFETIME_AT,
            lifetime.pid,
            lifetime.start_ticks,
            lifetime.pid_namespace,
            lifetime.boot_id.encode("ascii", "replace"),
        )
        layout.CLOCKS.pack_into(self.buffer, layout.CREATED_AT, clock(), time.time_ns())
        layout.RANK.pack_into(self.buffer, layout.RANK_AT, -1, -1, -1)

    # -- header ----------------------------------------------------------------------------------------------------

    def identify(self, run_id: str, attempt: str, host: str, ranks: tuple[int, int, int]) -> None:
        """Write who this process is; ``ranks``: rank, world size and rank on this node, -1 where not known."""
        layout.RANK.pack_into(self.buffer, layout.RANK_AT, *ranks)
        for place, text in ((layout.RUN_ID_AT, run_id), (layout.ATTEMPT_AT, attempt), (layout.HOST_AT, host)):
            self._write_header_text(place, text)

    def beat(self) -> None:
        """Say that the process runs, and how its clocks stand to each other now."""
        layout.CLOCKS.pack_into(self.buffer, layout.HEARTBEAT_AT, clock(), time.time_ns())

    def finish(self, reason: str) -> None:
        """The process has come to its end in order; ``reason`` names what has ended it, empty: its program did."""
        self.beat()
        self._write_header_text(layout.REASON_AT, reason)
        layout.END.pack_into(self.buffer, layout.END_AT, clock())

    def _write_header_text(self, place: int, text: str) -> None:
        data = _cut(text, layout.HEADER_TEXT.size - 2)
        layout.HEADER_TEXT.pack_into(self.buffer, place, len(data), data)

    # -- operations ------------------------------------------------------------------------------------------------

    def begin(self, kind: int, name: str, argument: int = 0, group: str = "", sequence: int = 0) -> Handle:
        """Record that an operation begins; :meth:`end` takes what this returns, once."""
        if kind in _COLLECTIVES:
            what = self.collective(name, group) + sequence + (layout.IS_WAIT if kind == layout.WAIT else 0)
            return self, None, self.places.begin(what, collective_places.clock())
        if kind == layout.STEP:
            argument = _whole(argument)
            layout.LAST_STEP.pack_into(self.buffer, layout.LAST_STEP_AT, argument, clock())
        return self._begin(self._steps if kind in _STEPS else self._calls, kind, name, argument)

    def end(self, handle: Handle, failed: bool = False) -> None:
        """Record that the operation is over."""
        ring, entries, *rest = handle
        if ring is not self:
            # Of the parent: it writes this end itself.
            return
        if entries is None:
            if rest[0] is not None:
                collective_places.end(rest[0], collective_places.clock(), failed)
        else:
            self._end(entries, rest, failed)

    def _begin(self, entries: _Entries, kind: int, name: str, argument: int) -> Handle:
        codes = kind | self._names.code(name) << layout.NAME_SHIFT
        moment, begun, entry = clock(), self._next_begin(), 0
        try:
            entry = entries.free.pop()
            layout.ENTRY.pack_into(self.buffer, entry, begun, codes, moment, argument, begun)
        except IndexError:
            self._count_unlisted(entries, 1)
        except BaseException:
            # A signal handler of the program has raised: the operation does not begin.
            self._give_back(entries, entry, begun)
            raise
        return self, entries, begun, entry, codes, moment, argument

    def _end(self, entries: _Entries, rest: list[int], failed: bool) -> None:
        begun, entry, codes, moment, argument = rest
        number = self._next_record()
        codes |= (layout.FAILED if failed else layout.DONE) << layout.OUTCOME_SHIFT
        at = layout.RECORDS_AT + number % layout.RECORDS * layout.RECORD_SIZE
        layout.RECORD.pack_into(self.buffer, at, number, codes, clock(), argument, moment, number)
        if entry:
            self._give_back(entries, entry, begun)
        else:
            self._count_unlisted(entries, -1)

    def _give_back(self, entries: _Entries, entry: int, begun: int) -> None:
        if entry:
            layout.ENDED.pack_into(self.buffer, entry + layout.ENDED_OFFSET, begun)
            entries.free.append(entry)

    def _count_unlisted(self, entries: _Entries, number: int) -> None:
        entries.unlisted += number
        unlisted = self._steps.unlisted, self._calls.unlisted
        layout.UNLISTED.pack_into(self.buffer, layout.UNLISTED_AT, *unlisted)

    # -- collectives -----------------------------------------------------------------------------------------------

    def collective(self, operation: str, group: str) -> float:
        """What a record of this collective is, without its number in the group and without flags."""
        codes = self._operations.code(operation), self._groups.code(group)
        return float(codes[0] << layout.OPERATION_SHIFT | codes[1] << layout.GROUP_SHIFT)

    def count_failed_launch(self, group: str, number: int) -> None:
        """So many launches of this group have failed: the ranks may number its collectives differently from now on."""
        at = layout.GROUPS.at + self._groups.code(group) * layout.GROUPS.size + layout.FAILED_LAUNCHES_OFFSET
        layout.FAILED_LAUNCHES.pack_into(self.buffer, at, number)


def create(directory: Path, name: str) -> Ring:
    """Make a ring ``name`` in ``directory``, readable by its owner only.

    Raises:
        OSError: without room, or where the file cannot be made.
    """
    _check_limit()
    _check_room(directory)
    descriptor, path = _open(directory, name)
    try:
        # Through to the last page: a sparse file would promise what the file system may not have.
        os.posix_fallocate(descriptor, 0, layout.SIZE)
        buffer = mmap.mmap(descriptor, layout.SIZE)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return Ring(path, buffer)


def _check_limit() -> None:
    """Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which ends a program that does not ignore it."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < layout.SIZE:
        raise OSError(errno.EFBIG, f"RLIMIT_FSIZE is {limit} bytes, a ring has {layout.SIZE}")


def _check_room(directory: Path) -> None:
    there = os.statvfs(directory)
    if there.f_bavail * there.f_frsize < layout.SIZE + MARGIN:
        raise OSError(errno.ENOSPC, f"less than {MARGIN >> 20} MiB would stay free")


def _open(directory: Path, name: str) -> tuple[int, Path]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for number in range(_NAMES_TRIED):
        path = directory / f"{name}{f'-{number}' if number else ''}{layout.SUFFIX}"
        try:
            return os.open(path, flags, _MODE), path
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory / f"{name}{layout.SUFFIX}"))


def _cut(text: str, size: int) -> bytes:
    return text.encode("utf-8", "replace")[:size]


def _whole(number: float) -> int:
    """Programs number steps as they like: 1.5, or beyond 64 bits."""
    try:
        return min(max(int(number), -_LARGEST), _LARGEST)
    except (ValueError, OverflowError, TypeError):
        return 0
