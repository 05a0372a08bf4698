"""The writer of one ring: a file that is mapped, and the functions of the hot path.

Space is reserved before the file is mapped, and the file is never made shorter. Both would end the program by SIGBUS:
a page that the full file system cannot give, and a page behind the end of the file.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import sys
import time

# By name, before gevent can patch it.
from _thread import get_ident
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import layout
from otel_rl.process.lifetime import own

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    #: An open operation: begin gives it, end takes it.
    Handle = tuple[Any, ...]
    #: A thread's part of the open operations: its number as part of codes, and the places of entries that are free. No
    #: named tuple: its constructor is a Python function that ``torch.compile`` would look at.
    Lane = tuple[int, list[int]]

_MODE = 0o600
#: A process that finds its file's name taken, by one of a container with the same pid, tries so many others.
_NAMES_TRIED = 10
#: Bytes that must stay free in the file system. In a small `/dev/shm`, as containers have, the program's own shared
#: memory would find no room, which ends it by SIGBUS.
MARGIN = 32 << 20
#: Seconds before threads without a lane look again for one that has become free.
_LANE_RETRY = 1.0

clock = time.monotonic_ns


class Ring:
    """One mapped file. Operations may begin and end in any thread, and in signal handlers."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self.path = path
        self.buffer = buffer
        self._codes: dict[str, int] = {"": 0}
        self._lanes: dict[int, Lane] = {}
        self._next_lane = 0
        self._lanes_full_until = 0
        self._describe()
        self.begin_coded, self.end = self._hot_path()
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
        self._add_text(layout.OTHER_TEXT)

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

    # -- texts -----------------------------------------------------------------------------------------------------

    def _add_text(self, text: str) -> int:
        """Give ``text`` a number, as long as there are any."""
        code = len(self._codes)
        if code >= layout.TEXTS:
            return layout.OTHER
        data = _cut(text, layout.TEXT.size - 2)
        layout.TEXT.pack_into(self.buffer, layout.TEXTS_AT + code * layout.TEXT_SIZE, len(data), data)
        return self._codes.setdefault(text, code)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def _add_lane(self, thread: int) -> Lane:
        """Give ``thread`` a lane of its own, that of a thread that has ended, or none."""
        if self._next_lane < layout.LANES:
            number, self._next_lane = self._next_lane, self._next_lane + 1
            first = layout.ENTRIES_AT + number * layout.ENTRIES * layout.ENTRY_SIZE
            free = [first + place * layout.ENTRY_SIZE for place in range(layout.ENTRIES)]
            lane = self._lanes[thread] = number << layout.LANE_SHIFT, free[::-1]
            return lane
        if clock() >= self._lanes_full_until:
            running = sys._current_frames().keys()  # noqa: SLF001 - threads that Python has not started, too
            ended = next((one for one in list(self._lanes) if one not in running), None)
            if ended is not None:
                lane = self._lanes[thread] = self._lanes.pop(ended)
                return lane
            self._lanes_full_until = clock() + int(_LANE_RETRY * 1e9)
        return layout.NO_LANE << layout.LANE_SHIFT, []

    # -- operations ------------------------------------------------------------------------------------------------

    def codes(self, kind: int, name: str, group: str = "") -> int:
        """Return what :meth:`begin_coded` takes; for an operation that comes often."""
        texts = self._codes
        try:
            return kind | texts[name] << layout.NAME_SHIFT | texts[group] << layout.GROUP_SHIFT
        except KeyError:
            name_code, group_code = (texts[text] if text in texts else self._add_text(text) for text in (name, group))
            return kind | name_code << layout.NAME_SHIFT | group_code << layout.GROUP_SHIFT

    def begin(self, kind: int, name: str, argument: int = 0, group: str = "", sequence: int = 0) -> Handle:
        """Record that an operation begins; :meth:`end` takes what this returns, once."""
        if kind == layout.STEP:
            layout.LAST_STEP.pack_into(self.buffer, layout.LAST_STEP_AT, argument, clock())
        return self.begin_coded(self.codes(kind, name, group), sequence, argument)

    def _hot_path(self) -> tuple[Callable[..., Handle], Callable[..., None]]:
        """Return ``begin_coded`` and ``end`` as closures: no attribute lookup, no lock, nothing that grows."""
        buffer, lanes, add_lane, now, thread = self.buffer, self._lanes, self._add_lane, clock, get_ident
        next_begin, next_record = count(1).__next__, count(1).__next__
        write_record, write_entry = layout.RECORD.pack_into, layout.ENTRY.pack_into
        write_ended, ended_offset = layout.ENDED.pack_into, layout.ENDED_OFFSET
        records, last, size = layout.RECORDS_AT, layout.RECORDS - 1, layout.RECORD_SIZE
        begin_only, done, failure = (
            what << layout.OUTCOME_SHIFT for what in (layout.BEGIN, layout.DONE, layout.FAILED)
        )

        def begin_coded(codes: int, sequence: int = 0, argument: int = 0) -> Handle:
            try:
                bits, free = lanes[thread()]
            except KeyError:
                bits, free = add_lane(thread())
            codes |= bits
            moment, begun = now(), next_begin()
            try:
                entry = free.pop()
            except IndexError:
                # So many operations are open in this thread: the ring tells that this one began.
                entry, number = 0, next_record()
                at = records + (number & last) * size
                write_record(buffer, at, number, codes | begin_only, sequence, moment, argument, moment, number)
            else:
                write_entry(buffer, entry, begun, codes, sequence, moment, argument, begun)
            return buffer, begun, entry, free, codes, sequence, moment, argument

        def end(handle: Handle, failed: bool = False) -> None:
            its_buffer, begun, entry, free, codes, sequence, moment, argument = handle
            if its_buffer is not buffer:
                # Of the parent: it writes this end itself.
                return
            number = next_record()
            codes |= failure if failed else done
            at = records + (number & last) * size
            write_record(buffer, at, number, codes, sequence, now(), argument, moment, number)
            if entry:
                write_ended(buffer, entry + ended_offset, begun)
                free.append(entry)

        return begin_coded, end


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
