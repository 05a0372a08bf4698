"""A ring as records and open operations, whatever state the file is in.

Its writer may run, or may have been killed in the middle of a record. A copy may have been cut. What cannot be a ring
is refused with a reason (:class:`UnreadableRing`); single places that make no sense are left out and counted.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout
from otel_rl.process.lifetime import Lifetime, is_alive

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


#: More than any job has: a damaged number must not make the reader count so far.
MOST_RANKS = 1 << 24


class UnreadableRing(Exception):  # noqa: N818 - reads as what it is
    """The file is no ring that this version can read."""


class Event(NamedTuple):
    """One record, or one open operation: what it is, where, and when. Moments are ns of the monotonic clock."""

    number: int
    kind: int
    #: :data:`layout.BEGIN`, :data:`layout.DONE` or :data:`layout.FAILED`.
    what: int
    name: str
    lane: int
    group: str
    #: Number of the collective in its group; 0: not known.
    sequence: int
    moment: int
    #: Iteration of a step, bytes of a collective.
    argument: int
    began: int


@dataclass
class Ring:
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
    open: list[Event] = field(default_factory=list)
    #: Oldest first.
    records: list[Event] = field(default_factory=list)
    #: Places that were being written, or make no sense.
    torn: int = 0

    @property
    def last_sign(self) -> int:
        """Wall clock (ns) of the last thing that the process wrote."""
        newest = max((event.moment for event in (*self.records[-1:], *self.open)), default=0)
        return self.wall(max(newest, self.heartbeat, self.ended, self.clocks[0]))

    def wall(self, moment: int) -> int:
        """Wall clock (ns) of a moment of this ring."""
        return moment - self.clocks[0] + self.clocks[1]

    def is_alive(self) -> bool | None:
        """True while its process runs, False after it has ended; None where that cannot be seen from here."""
        return is_alive(self.lifetime)


def read(path: Path, owners: Collection[int] | None = None) -> Ring:
    """Read the ring in ``path``, which one of ``owners`` (user ids) has to own.

    Raises:
        UnreadableRing: with the reason.
    """
    try:
        # Anybody may put files beside rings: a pipe would never end, another file may be of any size.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            what = os.fstat(descriptor)
            if not stat.S_ISREG(what.st_mode):
                raise UnreadableRing(f"{path}: not a file")
            if owners is not None and what.st_uid not in owners:
                raise UnreadableRing(f"{path}: of another user (id {what.st_uid})")
            data = file.read(layout.SIZE)
    except OSError as problem:
        raise UnreadableRing(f"{path}: {problem.strerror}") from problem
    try:
        return _parse(path, data)
    except (error, ValueError) as problem:
        raise UnreadableRing(f"{path}: damaged header ({problem})") from problem


def _parse(path: Path, data: bytes) -> Ring:
    _check_format(path, data)
    ring = _header(path, data)
    texts = _texts(data)
    for place in range(layout.LANES * layout.ENTRIES):
        _read_entry(ring, data, layout.ENTRIES_AT + place * layout.ENTRY_SIZE, texts)
    for place in range(layout.RECORDS):
        _read_record(ring, data, place, texts)
    ring.open.sort(key=lambda event: event.number)
    ring.records.sort(key=lambda event: event.number)
    return ring


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
    if len(data) < layout.SIZE:
        raise UnreadableRing(f"{path}: cut after {len(data)} of {layout.SIZE} bytes")


def _header(path: Path, data: bytes) -> Ring:
    pid, start_ticks, namespace, boot_id = layout.LIFETIME.unpack_from(data, layout.LIFETIME_AT)
    clocks = layout.CLOCKS.unpack_from(data, layout.CREATED_AT)
    heartbeat = layout.CLOCKS.unpack_from(data, layout.HEARTBEAT_AT)
    numbers = layout.RANK.unpack_from(data, layout.RANK_AT)
    if max(numbers) > MOST_RANKS:
        raise ValueError(f"a rank or world size of {max(numbers)}")
    rank, world_size, local_rank = (None if number < 0 else number for number in numbers)
    return Ring(
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
    )


def _text(data: bytes, form: Struct, place: int) -> str:
    length, text = form.unpack_from(data, place)
    # Tools are named by models: nothing of a name may reach a terminal as a command.
    return "".join(
        one if one.isprintable() or one == "\t" else "\N{REPLACEMENT CHARACTER}"
        for one in bytes(text[:length]).decode("utf-8", "replace")
    )


def _texts(data: bytes) -> list[str]:
    return [_text(data, layout.TEXT, layout.TEXTS_AT + code * layout.TEXT_SIZE) for code in range(layout.TEXTS)]


def _read_entry(ring: Ring, data: bytes, place: int, texts: list[str]) -> None:
    begun, codes, sequence, moment, argument, again = layout.ENTRY.unpack_from(data, place)
    ended = layout.ENDED.unpack_from(data, place + layout.ENDED_OFFSET)[0]
    if begun == again == ended:
        return
    codes |= layout.BEGIN << layout.OUTCOME_SHIFT
    if begun != again or not _is_sound(codes):
        ring.torn += 1
        return
    ring.open.append(_event(begun, codes, (sequence, moment, argument, moment), texts))


def _read_record(ring: Ring, data: bytes, place: int, texts: list[str]) -> None:
    at = layout.RECORDS_AT + place * layout.RECORD_SIZE
    number, codes, sequence, moment, argument, began, again = layout.RECORD.unpack_from(data, at)
    if number == again == codes == 0:
        return
    if number != again or number % layout.RECORDS != place or not _is_sound(codes):
        ring.torn += 1
        return
    ring.records.append(_event(number, codes, (sequence, moment, argument, began), texts))


def _parts(codes: int) -> tuple[int, int, int, int, int]:
    """Kind, outcome, name, lane, group."""
    text = 0xFFFF
    name, lane, group = (codes >> shift & text for shift in (layout.NAME_SHIFT, layout.LANE_SHIFT, layout.GROUP_SHIFT))
    return codes & 0xFF, codes >> layout.OUTCOME_SHIFT & 0xFF, name, lane, group


def _is_sound(codes: int) -> bool:
    kind, outcome, name, _, group = _parts(codes)
    happened = layout.BEGIN <= outcome <= layout.FAILED
    return kind in layout.KINDS and happened and name < layout.TEXTS and group < layout.TEXTS


def _event(number: int, codes: int, values: tuple[int, int, int, int], texts: list[str]) -> Event:
    kind, outcome, name, lane, group = _parts(codes)
    sequence, moment, argument, began = values
    return Event(number, kind, outcome, texts[name], lane, texts[group], sequence, moment, argument, began)
