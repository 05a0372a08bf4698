"""Collective operations: counted on the hot path, published once per export and once per step.

A training step issues hundreds of collectives. A span for each would cost more than many of them take, so each one only
adds to a preallocated slot of its operation and process group, in about a microsecond: no lock, no attribute
dictionary, no OpenTelemetry call. What reads the slots is in :mod:`otel_rl.collectives.reports`.

Inside times are seconds: Python adds floats faster than integers of this size. What is read is in whole nanoseconds.
Times are host times: *host* is the launching call, *wait* is ``Work.wait``. On a GPU neither says how long the device
took.
"""

from __future__ import annotations

import heapq
import math
import time
import weakref
from _thread import get_ident
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.collectives.flight_records import begin_late
from otel_rl.collectives.payload import payload_bytes
from otel_rl.core.guard import guard
from otel_rl.flight_recorder.layout import HAS_FAILED, IS_WAIT
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import TorchDistributedSourceValues as Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.collectives.flight_records import FlightRecords

    Call = Callable[..., Any]

#: Positions in a slot: four sums and what they belong to. A list is the cheapest thing to add to.
CALLS, BYTES, HOST_TIME, WAIT_TIME, GROUP = range(5)
#: Collectives shorter than this are never among the slowest: nobody looks for them.
SHORTEST_SLOW = 0.001
#: Launched and not yet waited for. What nobody waits for (fire and forget) must not pile up: beyond this length the
#: oldest work is let go, and a wait for it is not counted any more. Looked at with one call in :data:`RARELY` + 1.
MAXIMUM_PENDING = 4096
#: Size of a message where the wait is not for one collective.
UNKNOWN_SIZE = -1
#: Of each slot one call in ``RARELY + 1`` measures what counting it has cost: a mask, for the hot path.
RARELY = 63
#: Weight of the latest sample in the mean of that cost.
SAMPLE_WEIGHT = 1 / 8
#: Longest sample: a thread that loses the processor meanwhile costs nothing.
LONGEST_SAMPLE_NS = 50_000
OTHER_GROUP = "_OTHER"

#: The clock of the flight recorder too: its records need no other reading.
clock = time.monotonic
_NS = 1e9


class _Absent:
    """Stands for an argument that was not given: a message without bytes."""

    nbytes = 0


ABSENT: Any = _Absent()

Slot = list[Any]
#: What a method knows of a process group: its slot, and for the ring what a launch is, the number of the latest one in
#: a list, and where it is written.
Entry = tuple[Slot, float, list[float], Any]


class SlotKey(NamedTuple):
    """Key of a slot; ``source`` says what issued the collective."""

    operation: str
    name: str
    size: int
    source: str = Source.PYTHON


class Slow(NamedTuple):
    """One of the slowest collectives; ordered by ``duration``. Times in ns, ``started`` on the monotonic clock."""

    duration: int
    started: int
    message_size: int
    group: SlotKey


class CollectiveSums(NamedTuple):
    """Sums over all slots: calls, bytes, ns launching, ns waiting."""

    calls: int
    bytes: int
    host_time: int
    wait_time: int


def _call(function: Call, *args: Any) -> Any:
    return function(*args)


class CollectiveRecorder:
    """Slots, pending waits and the slowest collectives of one process.

    Args:
        slowest: how many of the slowest collectives to keep between two :meth:`take_slowest`; 0 keeps none.
        run_rare: runs what is no hot path, given a function and its arguments.
    """

    def __init__(self, slowest: int = 5, run_rare: Call = _call) -> None:
        self._keep = slowest
        self._run_rare = run_rare
        self._slots: dict[SlotKey, Slot] = {}
        #: Per replaced method: id of the process group -> slot, or entry.
        self._by_method: list[dict[int, Any]] = []
        #: Operation -> the threads in which Python issues it now, see :meth:`mark`. Lists of one, for the hot path.
        self._marks: defaultdict[str, list[set[int] | None]] = defaultdict(lambda: [None])
        self._groups: dict[int, weakref.ref[Any]] = {}
        #: id of the work -> slot, start, time of the launch, message size, what it is in the ring, and where that is.
        self._pending: dict[int, tuple[Slot, float, float, int, float, Any]] = {}
        #: A heap of the fields of :class:`Slow`. No named tuples: ``torch.compile`` would look at their constructor.
        self._slow: list[tuple[float, float, int, SlotKey]] = []
        #: A list of one so that the hot path reads it without an attribute lookup.
        self._limit = [SHORTEST_SLOW if slowest else math.inf]
        self.on_first_use: Callable[[], None] | None = None
        #: What counting a launch takes after it, in ns: a list of one, as above.
        self.own_ns = [0.0]
        #: Gets each begin and end; set before the methods are made.
        self.flight_records: FlightRecords | None = None

    # -- hot path ----------------------------------------------------------------------------------------------

    def recording(  # noqa: C901, PLR0915 - for speed, see below
        self, operation: str, payload: int | None, call: Call, *, blocks: bool = False
    ) -> Call:
        """Return a method that runs ``call(self, ...)`` and counts it.

        ``call`` takes the process group first; ``payload`` says which of its first two further arguments (0 or 1) holds
        the tensors whose size is counted. Exceptions of ``call`` pass untouched and uncounted. A call that ``blocks``
        returns when all ranks have entered the collective.

        Written for speed, hence in one piece: two or three arguments and a list of one tensor are what is passed most,
        and passing arguments on as they came costs half of what ``*args`` does.
        """
        entries: dict[int, Entry] = {}
        self._by_method.append(entries)
        records = self.flight_records
        in_ring, on_failure = records is not None, None
        threads: dict[int, float] = {}
        number_of: Any = None
        if records is not None:
            on_failure = records.wait_failed if blocks else records.launch_failed
            threads, number_of = records.threads.known, records.threads.of
            call = records.watching(operation, call)
            records.follow(entries.clear)
        marks, thread = self._marks[operation], get_ident
        pending, limit, find, keep_slow, now = self._pending, self._limit, self._find_entry, self._keep_slow, clock
        has_payload, is_second, absent = payload is not None, payload == 1, ABSENT
        late, rarely, seldom = begin_late, RARELY, self._seldom

        def method(  # noqa: C901, PLR0912, PLR0915 - as above
            self: Any, first: Any = absent, second: Any = absent, third: Any = absent, /, *rest: Any, **kwargs: Any
        ) -> Any:
            # `place` gets its value last: the program's signal handler may raise anywhere, and `finally` looks at it.
            work, slot, failed, place, what, places, mark = None, None, True, None, 0.0, None, None
            started = now()
            try:
                try:
                    try:
                        slot, codes, latest, places = entries[id(self)]
                    except KeyError:
                        slot, codes, latest, places = find(operation, self, entries)
                    if in_ring:
                        latest[0] = number = latest[0] + 1.0
                        try:
                            what = codes + number + threads[thread()]
                        except KeyError:
                            what = codes + number + number_of(thread())
                        if places is not None and (writer := places.writer) is not None:
                            take, began, whats, again, ended = writer
                            place = take()
                            began[place] = started
                            whats[place] = what
                            again[place] = started
                except Exception as error:  # noqa: BLE001 - counted, or a place is found
                    whats, ended, place = late(places, what, started, error)
                marked = marks[0]
                if marked is not None and (here := thread()) not in marked:
                    # First: `finally` takes it out.
                    mark = here
                    marked.add(here)
                if kwargs or rest or second is absent:
                    given = [argument for argument in (first, second, third) if argument is not absent]
                    work = call(self, *given, *rest, **kwargs)
                elif third is absent:
                    work = call(self, first, second)
                else:
                    work = call(self, first, second, third)
                failed = False
            finally:
                # First: a signal handler that raises here would leave the thread marked.
                if mark is not None:
                    marked.discard(mark)  # type: ignore[union-attr]  # as it has a mark
                over = now()
                if place is not None:
                    try:
                        if failed and on_failure is not None:
                            on_failure(self, whats, place)
                        ended[place] = over
                    except ValueError:
                        # A child that was forked inside the call: the record is its parent's.
                        places = None
            if slot is None:
                return work
            try:
                size = 0
                if has_payload:
                    message = second if is_second else first
                    try:
                        if type(message) is list:
                            (message,) = message
                        if type(message) is list:
                            # Of an all-gather: a tensor for each rank.
                            for part in message:
                                size += part.nbytes
                        else:
                            size = message.nbytes
                    except (AttributeError, RuntimeError, ValueError):
                        size = payload_bytes(second if is_second else first)
                elapsed = over - started
                slot[CALLS] = count = slot[CALLS] + 1
                slot[BYTES] += size
                slot[HOST_TIME] += elapsed
                pending[id(work)] = slot, started, elapsed, size, what, places
                if elapsed > limit[0]:
                    keep_slow((elapsed, started, size, slot[GROUP]))
                if not count & rarely:
                    seldom(over)
            except Exception as error:  # noqa: BLE001 - counted
                guard("collectives.record").handle(error)
            return work

        return method

    def waiting(self, call: Call) -> Call:
        """Return a replacement of ``Work.wait`` that adds the time to the operation that was waited for."""
        take_pending, limit, keep_waited, now, absent = self._pending.pop, self._limit, self._keep_waited, clock, ABSENT
        is_wait, has_failed, late = IS_WAIT, HAS_FAILED, begin_late

        def wait(self: Any, timeout: Any = absent) -> Any:
            failed, place, what, places = True, None, 0.0, None
            entry = take_pending(id(self), None)
            begun = now()
            try:
                try:
                    if entry is not None:
                        what, places = entry[4], entry[5]
                        if places is not None and (writer := places.writer) is not None:
                            what += is_wait
                            take, began, whats, again, ended = writer
                            place = take()
                            began[place] = begun
                            whats[place] = what
                            again[place] = begun
                except Exception as error:  # noqa: BLE001 - counted, or a place is found
                    whats, ended, place = late(places, what, begun, error)
                result = call(self) if timeout is absent else call(self, timeout)
                failed = False
            finally:
                over = now()
                if place is not None:
                    try:
                        if failed:
                            whats[place] += has_failed
                        ended[place] = over
                    except ValueError:
                        # As above.
                        places = None
                if entry is not None:
                    slot, started, launched, size, _, _ = entry
                    waited = over - begun
                    slot[WAIT_TIME] += waited
                    if waited + launched > limit[0]:
                        keep_waited((waited + launched, started, size, slot[GROUP]), launched)
            return result

        return wait

    def counting(self, operation: str, source: str) -> Callable[[Any, Any, float, float], Slot]:
        """Return ``count(process group, message, start, seconds)`` for those that pass no method of :meth:`recording`.

        It may run in any thread, below a lock of PyTorch's C++ code: it takes none, and enters nothing of the SDK. May
        raise. Waits for such a collective are added by :meth:`add_wait`.
        """
        slots: dict[int, Slot] = {}
        self._by_method.append(slots)
        find, limit = self._find, self._limit

        def count(process_group: Any, message: Any, started: float, elapsed: float) -> Slot:
            slot = slots.get(id(process_group))
            if slot is None:
                slot = find(operation, process_group, slots, source)
            size = 0 if message is None else payload_bytes(message)
            slot[CALLS] += 1
            slot[BYTES] += size
            slot[HOST_TIME] += elapsed
            if elapsed > limit[0]:
                self._keep_slow((elapsed, started, size, slot[GROUP]))
            return slot

        return count

    def add_wait(self, slot: Slot, started: float, waited: float) -> None:
        """Add ``waited`` seconds since ``started`` to a collective that :meth:`counting` has counted."""
        slot[WAIT_TIME] += waited
        if waited > self._limit[0]:
            self._keep_slow((waited, started, UNKNOWN_SIZE, slot[GROUP]))

    # -- rare --------------------------------------------------------------------------------------------------

    def _seldom(self, over: float) -> None:
        """After one launch in ``RARELY + 1``: time the counting since ``over``, and drop the oldest pending work."""
        own = self.own_ns
        own[0] += (min((clock() - over) * _NS, LONGEST_SAMPLE_NS) - own[0]) * SAMPLE_WEIGHT
        while len(self._pending) > MAXIMUM_PENDING:
            self._pending.pop(next(iter(self._pending)), None)

    def mark(self, operation: str, threads: set[int] | None) -> None:
        """Put the thread into ``threads`` in each method of ``operation``, while it calls the original.

        With None for the threads, no more.
        """
        self._marks[operation][0] = threads

    def _find(self, operation: str, process_group: Any, slots: dict[int, Slot], source: str = Source.PYTHON) -> Slot:
        """Make the slot for ``process_group`` at its first use by a method; groups of one name and size share one."""
        slot: Slot = self._run_rare(self._add_slot, operation, process_group, slots, source)
        return slot

    def _find_entry(self, operation: str, process_group: Any, entries: dict[int, Entry]) -> Entry:
        """First use of ``process_group`` by a method, or of a ring."""
        entry: Entry = self._run_rare(self._add_entry, operation, process_group, entries)
        return entry

    def _add_entry(self, operation: str, process_group: Any, entries: dict[int, Entry]) -> Entry:
        slot = self._slot(operation, process_group, Source.PYTHON)
        records = self.flight_records
        in_ring: Any = (0.0, [0.0], None) if records is None else records.known(operation, process_group)
        entry: Entry = (slot, *in_ring)
        entries[id(process_group)] = entry
        return entry

    def _add_slot(self, operation: str, process_group: Any, slots: dict[int, Slot], source: str) -> Slot:
        slot = slots[id(process_group)] = self._slot(operation, process_group, source)
        return slot

    def _slot(self, operation: str, process_group: Any, source: str) -> Slot:
        group = SlotKey(operation, self._group_name(process_group), process_group.size(), source)
        slot = self._slots.setdefault(group, [0, 0, 0.0, 0.0, group])
        identity = id(process_group)
        if identity not in self._groups:
            # By id and not by weak key: that would triple the cost. The id is free for reuse once the group is gone.
            self._groups[identity] = weakref.ref(process_group, lambda _: self._forget(identity))
        # Not for the others: their collectives may be issued below a lock of PyTorch.
        if self.on_first_use is not None and source == Source.PYTHON:
            self.on_first_use()
        return slot

    def _group_name(self, process_group: Any) -> str:
        name = process_group.group_desc
        if not name or name == "undefined":
            name = process_group.group_name
        names = {group.name for group in self._slots}
        if name not in names and len(names) >= attributes.CARDINALITY[attributes.TORCH_DISTRIBUTED_GROUP_NAME] - 1:
            return OTHER_GROUP
        return str(name)

    def _forget(self, identity: int) -> None:
        self._groups.pop(identity, None)
        for slots in self._by_method:
            slots.pop(identity, None)

    def _keep_waited(self, slow: tuple[float, float, int, SlotKey], launched: float) -> None:
        """Keep a collective that was waited for, instead of its launch, which may have been kept."""
        launch = (launched, *slow[1:])
        if launch in self._slow:
            self._slow.remove(launch)
            heapq.heapify(self._slow)
        self._keep_slow(slow)

    def _keep_slow(self, slow: tuple[float, float, int, SlotKey]) -> None:
        if len(self._slow) < self._keep:
            heapq.heappush(self._slow, slow)
        else:
            heapq.heappushpop(self._slow, slow)
        if len(self._slow) == self._keep:
            self._limit[0] = max(self._slow[0][0], SHORTEST_SLOW)

    # -- reading -----------------------------------------------------------------------------------------------

    def values(self) -> list[tuple[SlotKey, tuple[int, int, int, int]]]:
        """Return every slot with its sums since the process started: calls, bytes, ns launching, ns waiting."""
        return [
            (group, (slot[CALLS], slot[BYTES], round(slot[HOST_TIME] * _NS), round(slot[WAIT_TIME] * _NS)))
            for group, slot in list(self._slots.items())
        ]

    def totals(self) -> CollectiveSums:
        """Return the sums over all slots since the process started."""
        columns = zip(*(values for _, values in self.values()), strict=True)
        return CollectiveSums(*map(sum, columns)) if self._slots else CollectiveSums(0, 0, 0, 0)

    @property
    def keeps(self) -> int:
        """How many of the slowest collectives are kept."""
        return self._keep

    def take_slowest(self) -> list[Slow]:
        """Return the slowest collectives since the last call, longest first."""
        slow = [
            Slow(round(duration * _NS), round(started * _NS), size, group)
            for duration, started, size, group in sorted(self._slow, reverse=True)
        ]
        self._slow.clear()
        if self._keep:
            self._limit[0] = SHORTEST_SLOW
        return slow

    def reset(self) -> None:
        """Forget everything counted (a forked child starts at zero); the replaced methods stay valid."""
        for (threads,) in self._marks.values():
            if threads is not None:
                # Those of other threads: they are the parent's, and another thread here may get the same number.
                threads.intersection_update({get_ident()})
        for slot in self._slots.values():
            slot[:GROUP] = [0, 0, 0.0, 0.0]
        self._pending.clear()
        self.take_slowest()
