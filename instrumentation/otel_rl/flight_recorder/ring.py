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
from typing import TYPE_CHECKING

from otel_rl.core.guard import remove_file
from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.collective_places import CollectivePlaces
from otel_rl.process.lifetime import own

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.flight_recorder.collective_places import Place

_MODE = 0o600
_LARGEST = (1 << 63) - 1
#: A process that finds its file's name taken, by one of a container with the same pid, tries so many others.
_NAMES_TRIED = 10
#: Bytes that must stay free in the file system. In a small `/dev/shm`, as containers have, the program's own shared
#: memory would find no room, which ends it by SIGBUS.
MARGIN = 32 << 20
_COLLECTIVES = frozenset({layout.COLLECTIVE, layout.WAIT})
#: Words of entries and records, which lie behind each other.
_ENTRY_WORDS = layout.ENTRY_SIZE // layout.WORD
_RECORD_WORDS = layout.RECORD_SIZE // layout.WORD
_RECORDS_AT = layout.ENTRIES * _ENTRY_WORDS
_ENDED = layout.ENDED_OFFSET // layout.WORD
_NOWHERE = -1
_DONE = layout.DONE << layout.OUTCOME_SHIFT
_FAILED = layout.FAILED << layout.OUTCOME_SHIFT

clock = time.monotonic_ns


class NameTable:
    """One table of names in the file."""

    def __init__(self, buffer: mmap.mmap, table: layout.TextTable) -> None:
        self._buffer = buffer
        self._table = table
        self._text = table.text
        #: Text -> its number.
        self.known = {"": 0}
        self._is_full = False
        self._next_code = count(layout.OTHER).__next__
        self.code(layout.OTHER_TEXT)

    def code(self, text: str) -> int:
        """Return the number of ``text``, a new one as long as there are any."""
        known = self.known.get(text)
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
        return self.known.setdefault(text, code)


class _Part:
    """Places of steps and phases, or of calls: of those that are open, and of those that are over.

    Args:
        entries: Number of the first place of those that are open, and how many there are.
        records: The same of those that are over.
    """

    def __init__(self, entries: tuple[int, int], records: tuple[int, int]) -> None:
        first, length = entries
        #: First words of the places.
        self.free = [(first + place) * _ENTRY_WORDS for place in range(length)][::-1]
        #: How many are open without a place.
        self.unlisted = 0
        self.next_record = count(1).__next__
        #: Word at which the records begin, and how many they are; a later one overwrites the oldest.
        self.records_at = _RECORDS_AT + records[0] * _RECORD_WORDS
        self.records = records[1]


class Handle:
    """An operation that has begun: :meth:`Ring.begin` gives it, :meth:`Ring.end` takes it.

    After that its owner may let it begin again, see :meth:`Ring.begin_again`.

    It ends with its last reference too. A signal handler of the program may raise just after the begin: then nobody
    can end the operation any more, and it must not look open.
    """

    __slots__ = ("argument", "begun", "codes", "entry", "is_over", "moment", "number", "part", "place", "ring")

    def __init__(self, ring: Ring, part: _Part | None, place: Place | None = None) -> None:
        self.ring = ring
        #: None for a collective.
        self.part = part
        self.place = place
        #: Nothing to end yet.
        self.is_over = True
        #: First word of its place among those that are open; negative: it has none.
        self.entry = _NOWHERE
        self.begun = self.codes = self.moment = self.argument = 0
        #: Of its record; 0: it has none yet.
        self.number = 0

    def __del__(self) -> None:
        # A signal handler may raise before it has any attribute.
        if not getattr(self, "is_over", True):
            self.ring.end_abandoned(self)


class Ring:
    """One mapped file. Operations may begin and end in any thread, and in signal handlers."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self.path = path
        self.buffer = buffer
        self._names = NameTable(buffer, layout.NAMES)
        self._groups = NameTable(buffer, layout.GROUPS)
        self._operations = NameTable(buffer, layout.OPERATIONS)
        steps = layout.STEP_ENTRIES
        self._steps = _Part((0, steps), (0, layout.STEP_RECORDS))
        self._calls = _Part((steps, layout.CALL_ENTRIES), (layout.STEP_RECORDS, layout.CALL_RECORDS))
        self._next_begin = count(1).__next__
        #: The process that writes here; None after its orderly end.
        self._writer: int | None = os.getpid()
        self.places = CollectivePlaces(buffer)
        self._words = memoryview(buffer)[layout.ENTRIES_AT : layout.COLLECTIVES_AT].cast("q")
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

    def identify(self, run_id: str, attempt: str, host: str, ranks: tuple[int, int, int], launcher: str = "") -> None:
        """Write who this process is; ``ranks``: rank, world size and rank on this node, -1 where not known."""
        layout.RANK.pack_into(self.buffer, layout.RANK_AT, *ranks)
        places = (layout.RUN_ID_AT, layout.ATTEMPT_AT, layout.HOST_AT, layout.LAUNCHER_AT)
        for place, text in zip(places, (run_id, attempt, host, launcher), strict=True):
            self._write_header_text(place, text)

    def beat(self) -> None:
        """Write the heartbeat, and how the process' clocks stand to each other now."""
        layout.CLOCKS.pack_into(self.buffer, layout.HEARTBEAT_AT, clock(), time.time_ns())

    def rest(self) -> None:
        """Take the heartbeat back: the thread that gave it has ended, and the process goes on."""
        layout.CLOCKS.pack_into(self.buffer, layout.HEARTBEAT_AT, 0, 0)

    def step_over(self, waited: int) -> None:
        """Record the end of a step, and the ns that the process has waited in collectives since it began."""
        layout.WAITED.pack_into(self.buffer, layout.WAITED_AT, clock(), waited)

    def hangs(self, *, sees_hang: bool) -> None:
        """Record whether the watchdog sees a hang from now on."""
        layout.HANG.pack_into(self.buffer, layout.HANG_AT, clock() if sees_hang else 0)

    def finish(self, reason: str) -> None:
        """Record an end in order; ``reason`` names what ended the process, empty: its program did."""
        self._writer = None
        self.beat()
        self._write_header_text(layout.REASON_AT, reason)
        layout.END.pack_into(self.buffer, layout.END_AT, clock())

    def _write_header_text(self, place: int, text: str) -> None:
        data = _cut(text, layout.HEADER_TEXT.size - 2)
        layout.HEADER_TEXT.pack_into(self.buffer, place, len(data), data)

    # -- operations ------------------------------------------------------------------------------------------------

    def begin(
        self, kind: int, name: str, argument: int = 0, group: str = "", sequence: int = 0, *, loop: int = 0
    ) -> Handle:
        """Record that an operation begins; :meth:`end` takes what this returns, once.

        ``loop`` is the number of a step's loop among those without a name.
        """
        if kind in _COLLECTIVES:
            what = self.collective(name, group) + sequence + (layout.IS_WAIT if kind == layout.WAIT else 0)
            return Handle(self, None, self.places.begin(what, collective_places.clock()))
        part = self._steps if kind in layout.OF_STEPS else self._calls
        handle = Handle(self, part)
        code = self._names.known.get(name)
        if code is None:
            code = self._names.code(name)
        handle.codes = kind | code << layout.NAME_SHIFT | (loop & layout.LOOP_MASK) << layout.LOOP_SHIFT
        if kind == layout.STEP:
            self._begin_step(handle, argument)
        else:
            handle.argument = argument
        self._list(handle, part)
        return handle

    def begin_again(self, handle: Handle, step: int | None = None) -> bool:
        """Record that an operation that is over begins another time; False where it is open, or of another ring.

        ``step`` is the number of a step, which the operation then is.
        """
        part = handle.part
        if handle.ring is not self or part is None or not handle.is_over:
            return False
        handle.number = 0
        if step is not None:
            self._begin_step(handle, step)
        self._list(handle, part)
        return True

    def _begin_step(self, handle: Handle, step: int) -> None:
        handle.argument = number = _whole(step)
        layout.LAST_STEP.pack_into(self.buffer, layout.LAST_STEP_AT, number, clock())

    def _list(self, handle: Handle, part: _Part) -> None:
        """Write the operation among those that are open."""
        handle.moment, handle.begun = moment, begun = clock(), self._next_begin()
        try:
            handle.entry = at = part.free.pop()
        except IndexError:
            self._count_unlisted(part, 1)
            handle.is_over = False
            return
        handle.is_over = False
        words = self._words
        words[at] = begun
        words[at + 1] = handle.codes
        words[at + 2] = moment
        words[at + 3] = handle.argument
        words[at + 4] = begun

    def end(self, handle: Handle | None, failed: bool = False) -> None:
        """Record that the operation is over, where its beginning was recorded."""
        if handle is None or handle.ring is not self:
            # Of the parent: it writes this end itself.
            return
        part = handle.part
        if part is None:
            if handle.place is not None:
                collective_places.end(handle.place, collective_places.clock(), failed)
            return
        if handle.is_over:
            # Its record may have been overwritten by a later one by now.
            return
        is_short = not failed and clock() - handle.moment < layout.SHORTEST_PART
        if is_short and handle.codes & layout.KIND_MASK == layout.PART:
            self._unlist(handle, part)
            return
        # A signal handler may raise at any line: the next call, if only that of the finaliser, repeats what was done.
        handle.number = number = handle.number or part.next_record()
        words, at = self._words, part.records_at + number % part.records * _RECORD_WORDS
        words[at] = number
        words[at + 1] = handle.codes | (_FAILED if failed else _DONE)
        words[at + 2] = clock()
        words[at + 3] = handle.argument
        words[at + 4] = handle.moment
        words[at + 5] = number
        self._unlist(handle, part)

    def _unlist(self, handle: Handle, part: _Part) -> None:
        entry = handle.entry
        if entry >= 0:
            self._words[entry + _ENDED] = handle.begun
        handle.entry, handle.is_over = _NOWHERE, True
        if entry >= 0:
            part.free.append(entry)
        else:
            self._count_unlisted(part, -1)

    def end_abandoned(self, handle: Handle) -> None:
        """Forget an operation that nobody can end any more: a forked child has lost it, and its parent has not."""
        if self._writer is not None and self._writer == os.getpid():
            self.end(handle, failed=True)

    def _count_unlisted(self, part: _Part, number: int) -> None:
        part.unlisted += number
        unlisted = self._steps.unlisted, self._calls.unlisted
        layout.UNLISTED.pack_into(self.buffer, layout.UNLISTED_AT, *unlisted)

    # -- collectives -----------------------------------------------------------------------------------------------

    def collective(self, operation: str, group: str) -> float:
        """Return the code of this collective, without its number in the group and without flags."""
        codes = self._operations.code(operation), self._groups.code(group)
        return float(codes[0] << layout.OPERATION_SHIFT | codes[1] << layout.GROUP_SHIFT)

    def count_failed_launch(self, group: str, number: int) -> None:
        """Record how many launches of a group have failed: from now on ranks may number its collectives differently."""
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
        remove_file(path)
        raise
    finally:
        os.close(descriptor)
    return Ring(path, buffer)


def _check_limit() -> None:
    """Raise OSError where RLIMIT_FSIZE allows no ring: beyond it the kernel sends SIGXFSZ, which ends a program."""
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
    """Return a step's number as 64 bits: programs number steps as they like, 1.5 or larger."""
    if type(number) is int and -_LARGEST <= number <= _LARGEST:
        return number
    try:
        return min(max(int(number), -_LARGEST), _LARGEST)
    except (ValueError, OverflowError, TypeError):
        return 0
