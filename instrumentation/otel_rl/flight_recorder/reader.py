"""A ring as records and open operations, whatever state the file is in.

Its writer may run, or may have been killed in the middle of a record. A copy may have been cut. What cannot be a ring
is refused with a reason (:class:`UnreadableRing`); single places that make no sense are left out and counted.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout
from otel_rl.process.lifetime import Lifetime, is_alive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


#: More than any job has: a damaged number must not make the reader count so far.
MOST_RANKS = 1 << 24
#: Seconds: 300 years after the boot.
_LAST_MOMENT = 1e10
#: Steps that :func:`read` gives, however early they ended, where it is asked for the recent past.
RECENT_STEPS = 16
#: Places of a segment whose moments show when it was begun.
_SAMPLED_PLACES = 4
#: Segments before it that may hold earlier and later ones.
_SEGMENTS_BEFORE = 2
_UNUSED_SEGMENT = bytes(layout.SEGMENT * layout.COLLECTIVE_SIZE)
_LAST_WHAT = 1 << layout.THREAD_SHIFT + layout.THREAD_BITS


#: No rank leaves these before all have entered.
KEEP_TOGETHER = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})


#: Seconds from which on a length is said in minutes.
_MINUTES = 180.0


class UnreadableRing(Exception):  # noqa: N818 - reads as what it is
    """The file is no ring that this version can read."""


class Event(NamedTuple):
    """One record, or one open operation: what it is, and when. Moments are ns of the monotonic clock."""

    kind: int
    #: :data:`layout.BEGIN`, :data:`layout.DONE` or :data:`layout.FAILED`.
    what: int
    name: str
    #: Of the end; of the begin while it is open.
    moment: int
    began: int
    #: Iteration of a step; what a part of the run counts (:data:`layout.PARTS`).
    argument: int = 0
    group: str = ""
    #: Number of the collective in its group; 0: not known. None: it is a send or receive, which has none.
    sequence: int | None = 0
    #: The number is that of torch, which counts all collectives. Otherwise those are counted that Python issues.
    is_numbered_by_torch: bool = False
    #: Of a collective: number of the thread that launched it, 0: the main one.
    thread: int = 0
    #: Of a step: number of its loop among those without a name.
    loop: int = 0

    @property
    def part_words(self) -> str:
        """What stands behind `in` for a part of the run."""
        return layout.part_words(self.name, self.argument)


class PartOfRun(NamedTuple):
    """A part of the run in which a process waits, or waited in vain."""

    #: What stands behind `in`.
    name: str
    seconds: float
    is_before_first_step: bool

    @property
    def words(self) -> str:
        """For a sentence: ``before the first step, in init_process_group (world size 2) for 90 s``."""
        seconds = self.seconds
        length = f"{seconds:.0f} s" if seconds < _MINUTES else f"{seconds / 60:.0f} min"
        return f"{'before the first step, ' * self.is_before_first_step}in {self.name} for {length}"


@dataclass
class RingSnapshot:
    """What one file tells of one process."""

    path: Path
    lifetime: Lifetime
    run_id: str
    attempt: str
    host: str
    rank: int | None
    world_size: int | None
    local_rank: int | None
    #: (monotonic, wall) in ns, read together.
    clocks: tuple[int, int]
    #: Monotonic ns; 0: none yet.
    heartbeat: int
    #: Monotonic ns of the orderly end; 0: there was none.
    ended: int
    end_reason: str
    #: Iteration that began last, and when; (0, 0) where none did.
    last_step: tuple[int, int]
    #: In the order of their begins.
    open: list[Event] = field(default_factory=list)
    #: In the order of their ends.
    records: list[Event] = field(default_factory=list)
    #: Collectives have been overwritten by later ones.
    has_lost_collectives: bool = True
    #: Monotonic ns: none has been overwritten that began later.
    collectives_since: int = 0
    #: Group -> number of its launches by Python that have raised.
    failed_launches: dict[str, int] = field(default_factory=dict)
    #: Operations that are open and had no place among ``open``: steps and phases, tools and model calls.
    unlisted: tuple[int, int] = (0, 0)
    #: Monotonic ns since when its watchdog sees a hang; 0: it sees none.
    hangs_since: int = 0
    #: Places that were being written, or make no sense.
    torn: int = 0
    launcher: str = ""
    #: Monotonic ns at which it was made; 0: not known.
    made: int = 0

    @property
    def last_sign(self) -> int:
        """Wall clock (ns) of the last thing that the process wrote."""
        return self.wall(max(self.last_record, self.heartbeat, self.ended, self.clocks[0]))

    @property
    def last_record(self) -> int:
        """Moment (ns) at which the process last began or ended something that it records; 0: it never did."""
        return max(self.last_step[1], *(event.moment for event in (*self.records[-1:], *self.open)), 0)

    def part(self) -> PartOfRun | None:
        """Return the part of the run that it is in, or was in at its end: open, or what it did last, and in vain."""
        part = next((event for event in reversed(self.open) if event.kind == layout.PART), None)
        if part is not None:
            end = time.monotonic_ns() if self.is_alive() else max(self.heartbeat, self.ended, self.last_record)
            return PartOfRun(part.part_words, (end - part.began) / 1e9, not self.last_step[1])
        last = next((one for one in reversed(self.records) if one.kind not in (layout.STEP, layout.PHASE)), None)
        if last is None or last.kind != layout.PART or last.what != layout.FAILED:
            return None
        return PartOfRun(last.part_words, (last.moment - last.began) / 1e9, not self.last_step[1])

    def wall(self, moment: int) -> int:
        """Return the wall clock (ns) of a moment of this ring."""
        return moment - self.clocks[0] + self.clocks[1]

    def is_alive(self) -> bool | None:
        """Return whether its process runs; None where that cannot be seen from here."""
        return is_alive(self.lifetime)


def read(path: Path, owners: Collection[int] | None = None, since: int | None = None) -> RingSnapshot:
    """Read the ring in ``path``, which one of ``owners`` (user ids) has to own.

    ``since`` (ns of the monotonic clock) leaves out what is open, tools and model calls, steps and phases that ended
    earlier, except for the newest steps, and collectives that began earlier. That takes a fraction of the time, for who
    reads again and again.

    Raises:
        UnreadableRing: with the reason.
    """
    ring, data = _whole(path, owners, layout.SIZE)
    _read_operations(ring, data, since)
    return ring


def read_header(path: Path, owners: Collection[int] | None = None) -> RingSnapshot:
    """Read who writes the ring in ``path``, and nothing of what it did.

    Raises:
        UnreadableRing: with the reason.
    """
    return _header(path, content_of(path, owners, layout.HEADER_SIZE))


def read_current(path: Path, owners: Collection[int] | None = None) -> RingSnapshot:
    """Read who writes the ring, and which steps and phases are open: what is asked every second, in 0.2 ms.

    Raises:
        UnreadableRing: with the reason.
    """
    ring, data = _whole(path, owners, layout.RECORDS_AT)
    names = _Texts(data, layout.NAMES)
    for place in range(layout.STEP_ENTRIES):
        _read_entry(ring, data, layout.ENTRIES_AT + place * layout.ENTRY_SIZE, names)
    ring.open.sort(key=lambda event: event.began)
    return ring


def read_waited(path: Path) -> tuple[int, int]:
    """Read when the last step was over, and how long the process had waited by then, in ns; of a known ring, fast.

    Raises:
        UnreadableRing: with the reason.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            moment, waited = layout.WAITED.unpack(os.pread(descriptor, layout.WAITED.size, layout.WAITED_AT))
        finally:
            os.close(descriptor)
    except (OSError, error) as problem:
        raise UnreadableRing(f"{path}: {problem}") from problem
    return moment, waited


def group_name(text: str) -> str:
    """Return the description of a group, else its name; torch says "undefined" where the program has given none."""
    name, description = (*text.split("\t"), "", "")[:2]
    return name if description in ("", "undefined") else description


def header_text(text: str) -> str:
    """Return ``text`` as a header has it: cut, and without control characters."""
    form = layout.HEADER_TEXT
    data = text.encode("utf-8", "replace")[: form.size - 2]
    return _text(form.pack(len(data), data), form, 0)


def _whole(path: Path, owners: Collection[int] | None, size: int) -> tuple[RingSnapshot, bytes]:
    """Return the ring with its header, and its first ``size`` bytes, of which none is missing."""
    data = content_of(path, owners, size)
    ring = _header(path, data)
    if len(data) < size:
        raise UnreadableRing(f"{path}: cut after {len(data)} of {layout.SIZE} bytes")
    return ring, data


def content_of(path: Path, owners: Collection[int] | None, size: int) -> bytes:
    """Read the first ``size`` bytes of a file that lies among rings.

    Raises:
        UnreadableRing: with the reason.
    """
    try:
        # Anybody may put files beside rings: a pipe would never end, another file may be of any size.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            what = os.fstat(descriptor)
            if not stat.S_ISREG(what.st_mode):
                raise UnreadableRing(f"{path}: not a file")
            if owners is not None and what.st_uid not in owners:
                raise UnreadableRing(f"{path}: of another user (id {what.st_uid})")
            # A file object of a folder is refused, and leaves the descriptor open.
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(size)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise UnreadableRing(f"{path}: {problem.strerror}") from problem


def _read_operations(ring: RingSnapshot, data: bytes, since: int | None) -> None:
    names, groups, operations = (_Texts(data, table) for table in (layout.NAMES, layout.GROUPS, layout.OPERATIONS))
    if since is None:
        for place in range(layout.ENTRIES):
            _read_entry(ring, data, layout.ENTRIES_AT + place * layout.ENTRY_SIZE, names)
        _read_failed_launches(ring, data, groups)
    for place in range(layout.RECORDS) if since is None else _recent_records(data, since):
        _read_record(ring, data, place, names)
    ring.collectives_since = _all_collectives_since(data)
    for place in _used_collectives(ring, data) if since is None else _recent_collectives(data, since):
        _read_collective(ring, data, place, groups, operations)
    _leave_out_abandoned(ring)
    ring.open.sort(key=lambda event: event.began)
    ring.records.sort(key=lambda event: event.moment)


def _leave_out_abandoned(ring: RingSnapshot) -> None:
    """Leave out collectives whose end was not written: a signal handler of the program has raised just after the begin.

    Launches of a group follow each other. So do waits for collectives that keep the ranks together: where one is over,
    all ranks had entered those before it.
    """
    over: dict[tuple[object, ...], int] = {}
    for event in ring.records:
        launched = event.kind == layout.COLLECTIVE
        if event.what == layout.DONE and (launched or (event.kind == layout.WAIT and event.name in KEEP_TOGETHER)):
            over[_numbering(event)] = max(event.sequence or 0, over.get(_numbering(event), 0))
    ring.open = [event for event in ring.open if not event.sequence or event.sequence >= over.get(_numbering(event), 0)]


def _numbering(event: Event) -> tuple[object, ...]:
    return event.kind, event.group, event.is_numbered_by_torch


def _recent_records(data: bytes, since: int) -> list[int]:
    """Return places of the newest steps, and of steps and phases that ended at ``since`` or later."""
    end = layout.RECORDS_AT + layout.STEP_RECORDS * layout.RECORD_SIZE
    words = memoryview(data)[layout.RECORDS_AT : end].cast("q")
    codes, moments = (words[word :: layout.RECORD_SIZE // 8].tolist() for word in (1, 2))
    places = {place for place, moment in enumerate(moments) if moment >= since}
    steps = [place for place, code in enumerate(codes) if code & layout.KIND_MASK == layout.STEP]
    return list(places.union(sorted(steps, key=moments.__getitem__)[-RECENT_STEPS:]))


def _all_collectives_since(data: bytes) -> int:
    """Return since when all collectives are there, in ns: since the begin of the segment that is overwritten next.

    The very oldest is left out of account: two threads at once may have passed over it.
    """
    begun = sorted(_begun(memoryview(data)[layout.COLLECTIVES_AT : layout.SIZE].cast("d")).values())
    return round(begun[1] * 1e9) if begun[0] and 0 < begun[1] < _LAST_MOMENT else 0


def _begun(words: memoryview[float]) -> dict[int, float]:
    """Return first word of each segment -> when it was begun, in s; 0: it was never used.

    A few places are asked: the first may belong to a collective that is open for long.
    """
    size, asked = layout.SEGMENT * layout.COLLECTIVE_WORDS, _SAMPLED_PLACES * layout.COLLECTIVE_WORDS
    starts = range(0, layout.SEGMENTS * size, size)
    return {start: max(words[start : start + asked : layout.COLLECTIVE_WORDS]) for start in starts}


def _recent_collectives(data: bytes, since: int) -> list[int]:
    """Return places of those that began at ``since`` or later.

    A segment is filled from its first place on. So those that were begun at ``since`` or later are looked at, and the
    latest before.
    """
    words, first = memoryview(data)[layout.COLLECTIVES_AT : layout.SIZE].cast("d"), since / 1e9
    size, begun = layout.SEGMENT * layout.COLLECTIVE_WORDS, _begun(words)
    before = sorted((start for start in begun if begun[start] < first), key=begun.__getitem__)[-_SEGMENTS_BEFORE:]
    places: list[int] = []
    for start in (*before, *(start for start in begun if begun[start] >= first)):
        moments = words[start : start + size : layout.COLLECTIVE_WORDS].tolist()
        places += [place for place, moment in enumerate(moments, start // layout.COLLECTIVE_WORDS) if moment >= first]
    return places


def _used_collectives(ring: RingSnapshot, data: bytes) -> Iterator[int]:
    """Yield places of the segments that were ever used: of a program with few collectives that is none, or one."""
    for first in range(0, layout.COLLECTIVES, layout.SEGMENT):
        if data.startswith(_UNUSED_SEGMENT, layout.COLLECTIVES_AT + first * layout.COLLECTIVE_SIZE):
            ring.has_lost_collectives = False
        else:
            yield from range(first, first + layout.SEGMENT)


def _read_failed_launches(ring: RingSnapshot, data: bytes, groups: _Texts) -> None:
    for code in range(layout.GROUPS.length):
        at = layout.GROUPS.at + code * layout.GROUPS.size + layout.FAILED_LAUNCHES_OFFSET
        failed = layout.FAILED_LAUNCHES.unpack_from(data, at)[0]
        if failed:
            ring.failed_launches[groups[code]] = failed


def _check_format(path: Path, data: bytes) -> None:
    if len(data) < layout.FORMAT.size or not any(data[: layout.FORMAT.size]):
        raise UnreadableRing(f"{path}: empty: its process ended while it made the file")
    magic, version, *sizes = layout.FORMAT.unpack_from(data, layout.FORMAT_AT)
    if magic != layout.MAGIC:
        raise UnreadableRing(f"{path}: not a ring of otel-rl")
    if version != layout.VERSION:
        raise UnreadableRing(f"{path}: written by another version of otel-rl (format {version}, not {layout.VERSION})")
    if tuple(sizes) != layout.SIZES:
        raise UnreadableRing(f"{path}: damaged header (its sizes are not those of format {version})")
    if len(data) < layout.HEADER_SIZE:
        raise UnreadableRing(f"{path}: cut after {len(data)} of {layout.SIZE} bytes")


def _header(path: Path, data: bytes) -> RingSnapshot:
    _check_format(path, data)
    try:
        return _parse_header(path, data)
    except (error, ValueError) as problem:
        raise UnreadableRing(f"{path}: damaged header ({problem})") from problem


def _parse_header(path: Path, data: bytes) -> RingSnapshot:
    pid, start_ticks, namespace, boot_id = layout.LIFETIME.unpack_from(data, layout.LIFETIME_AT)
    clocks = layout.CLOCKS.unpack_from(data, layout.CREATED_AT)
    heartbeat = layout.CLOCKS.unpack_from(data, layout.HEARTBEAT_AT)
    numbers = layout.RANK.unpack_from(data, layout.RANK_AT)
    if max(numbers) > MOST_RANKS:
        raise ValueError(f"a rank or world size of {max(numbers)}")
    rank, world_size, local_rank = (None if number < 0 else number for number in numbers)
    return RingSnapshot(
        path=path,
        lifetime=Lifetime(boot_id.rstrip(b"\0").decode("ascii"), pid, start_ticks, namespace),
        run_id=_text(data, layout.HEADER_TEXT, layout.RUN_ID_AT),
        attempt=_text(data, layout.HEADER_TEXT, layout.ATTEMPT_AT),
        host=_text(data, layout.HEADER_TEXT, layout.HOST_AT),
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        # The latest pair: the two clocks drift apart. Both of its halves, or the writer was in the middle.
        clocks=heartbeat if all(heartbeat) else clocks,
        heartbeat=heartbeat[0],
        ended=layout.END.unpack_from(data, layout.END_AT)[0],
        end_reason=_text(data, layout.HEADER_TEXT, layout.REASON_AT),
        last_step=layout.LAST_STEP.unpack_from(data, layout.LAST_STEP_AT),
        unlisted=layout.UNLISTED.unpack_from(data, layout.UNLISTED_AT),
        hangs_since=layout.HANG.unpack_from(data, layout.HANG_AT)[0],
        launcher=_text(data, layout.HEADER_TEXT, layout.LAUNCHER_AT),
        made=layout.CLOCKS.unpack_from(data, layout.CREATED_AT)[0],
    )


def _text(data: bytes, form: Struct, place: int) -> str:
    length, text = form.unpack_from(data, place)
    # Tools are named by models: nothing of a name may reach a terminal as a command.
    return "".join(
        character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}"
        for character in bytes(text[:length]).decode("utf-8", "replace")
    )


class _Texts(dict[int, str]):
    """Number -> text; read when they are asked for: most places of a table are empty."""

    def __init__(self, data: bytes, table: layout.TextTable) -> None:
        super().__init__()
        self._data = data
        self._table = table

    def __missing__(self, code: int) -> str:
        table = self._table
        text = self[code] = _text(self._data, table.text, table.at + code * table.size)
        return text


def _read_entry(ring: RingSnapshot, data: bytes, place: int, names: _Texts) -> None:
    begun, codes, moment, argument, begun_copy = layout.ENTRY.unpack_from(data, place)
    ended = layout.ENDED.unpack_from(data, place + layout.ENDED_OFFSET)[0]
    # Later than `begun`: a signal handler has kept an operation from being written, and its end was.
    if begun == begun_copy and ended >= begun:
        return
    codes |= layout.BEGIN << layout.OUTCOME_SHIFT
    if begun != begun_copy or not _is_sound(codes):
        ring.torn += 1
        return
    ring.open.append(_event(codes, (moment, argument, moment), names))


def _read_record(ring: RingSnapshot, data: bytes, place: int, names: _Texts) -> None:
    at = layout.RECORDS_AT + place * layout.RECORD_SIZE
    number, codes, moment, argument, began, number_copy = layout.RECORD.unpack_from(data, at)
    if number == number_copy == codes == 0:
        return
    if number != number_copy or _place(number, codes) != place or not _is_sound(codes):
        ring.torn += 1
        return
    ring.records.append(_event(codes, (moment, argument, began), names))


def _place(number: int, codes: int) -> int:
    """Return the place of the record with this number."""
    if codes & layout.KIND_MASK in layout.OF_STEPS:
        return number % layout.STEP_RECORDS
    return layout.STEP_RECORDS + number % layout.CALL_RECORDS


def _parts(codes: int) -> tuple[int, int, int, int]:
    """Return kind, outcome, name, loop."""
    outcome, name = codes >> layout.OUTCOME_SHIFT, codes >> layout.NAME_SHIFT
    return (
        codes & layout.KIND_MASK,
        outcome & layout.OUTCOME_MASK,
        name & layout.NAME_MASK,
        codes >> layout.LOOP_SHIFT,
    )


def _is_sound(codes: int) -> bool:
    kind, outcome, name, _ = _parts(codes)
    return kind in layout.KINDS and layout.BEGIN <= outcome <= layout.FAILED and name < layout.NAMES.length


def _event(codes: int, values: tuple[int, int, int], names: _Texts) -> Event:
    kind, outcome, name, loop = _parts(codes)
    moment, argument, began = values
    return Event(kind, outcome, names[name], moment, began, argument, loop=loop)


def _read_collective(ring: RingSnapshot, data: bytes, place: int, groups: _Texts, operations: _Texts) -> None:
    at = layout.COLLECTIVES_AT + place * layout.COLLECTIVE_SIZE
    began, what, began_copy, ended = layout.COLLECTIVE_RECORD.unpack_from(data, at)
    if not (began or what or began_copy or ended):
        # A place that was never used.
        ring.has_lost_collectives = False
        return
    # Not a number is not equal to itself.
    if began != began_copy or not (0 < began < _LAST_MOMENT and 0 <= what < _LAST_WHAT and ended < _LAST_MOMENT):
        ring.torn += 1
        return
    event = _collective(int(what), began, ended, groups, operations)
    (ring.open if event.what == layout.BEGIN else ring.records).append(event)


def _collective(what: int, began: float, ended: float, groups: _Texts, operations: _Texts) -> Event:
    is_open = ended < began
    return Event(
        kind=layout.WAIT if what & layout.IS_WAIT else layout.COLLECTIVE,
        what=layout.BEGIN if is_open else layout.FAILED if what & layout.HAS_FAILED else layout.DONE,
        name=operations[what >> layout.OPERATION_SHIFT & layout.OPERATION_MASK],
        moment=_nanoseconds(began if is_open else ended),
        began=_nanoseconds(began),
        group=groups[what >> layout.GROUP_SHIFT & layout.GROUP_MASK],
        sequence=None if what & layout.HAS_NO_NUMBER else what & layout.SEQUENCE_MASK,
        is_numbered_by_torch=bool(what & layout.IS_NUMBERED_BY_TORCH),
        thread=what >> layout.THREAD_SHIFT,
    )


def _nanoseconds(moment: float) -> int:
    return round(moment * 1e9)
