"""Collective operations: counted on the hot path, published once per export and once per step.

A training step issues hundreds of collectives. A span for each would cost more than many of them take, so each one only
adds to a preallocated slot of its operation and process group, in about a microsecond: no lock, no attribute
dictionary, no OpenTelemetry call. What reads the slots is in :mod:`otel_rl.collectives.reports`.

Times are host times: *host* is the launching call, *wait* is ``Work.wait``. On a GPU neither says how long the device
took.
"""

from __future__ import annotations

import heapq
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import TorchDistributedSourceValues as Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.collectives.flight_records import FlightRecords

    Call = Callable[..., Any]

#: Positions in a slot: four sums (times in ns) and what they belong to. A list is the cheapest thing to add to.
CALLS, BYTES, HOST_TIME, WAIT_TIME, GROUP = range(5)
#: Collectives shorter than this are never among the slowest: nobody looks for them.
SHORTEST_SLOW_NS = 1_000_000
#: Launched and not yet waited for. What nobody waits for (fire and forget) must not pile up: a table of this length
#: lets its oldest work go, for which a wait is not counted any more.
MAXIMUM_PENDING = 4096
#: Size of a message where the wait is not for one collective.
UNKNOWN_SIZE = -1
#: Of each slot one call in 64 tells what counting it has cost. The weight of the latest in the mean; what a sample may
#: be at most: a thread that loses the processor meanwhile costs nothing.
RARELY, WEIGHT, LONGEST_OWN_NS = 63, 1 / 8, 50_000
OTHER_GROUP = "_OTHER"

clock = time.perf_counter_ns


class _Absent:
    """Stands for an argument that was not given: a message without bytes."""

    nbytes = 0


ABSENT: Any = _Absent()

Slot = list[Any]


class Group(NamedTuple):
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
    group: Group


class Totals(NamedTuple):
    """Sums over all slots: calls, bytes, ns launching, ns waiting."""

    calls: int
    bytes: int
    host_time: int
    wait_time: int


def payload_bytes(payload: Any) -> int:
    """Bytes of a tensor or of tensors in (nested) lists."""
    if isinstance(payload, list | tuple):
        size = 0
        for part in payload:
            size += payload_bytes(part)
        return size
    try:
        return int(payload.nbytes)
    except RuntimeError:
        # A sparse tensor has no size of its own, its parts have.
        return int(payload._indices().nbytes + payload._values().nbytes)  # noqa: SLF001 - public ones need coalescing


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
        self._slots: dict[Group, Slot] = {}
        #: Per replaced method: id of the process group -> slot.
        self._by_method: list[dict[int, Slot]] = []
        #: Per replaced method: what it calls now, and the original.
        self._calls: list[tuple[list[Call], Call]] = []
        self._groups: dict[int, weakref.ref[Any]] = {}
        #: id of the work -> slot, start, time of the launch, message size.
        self._pending: dict[int, tuple[Slot, int, int, int]] = {}
        #: A heap of the fields of :class:`Slow`. Plain tuples: the constructor of a named one is a Python function,
        #: which ``torch.compile`` would look at when the collective is issued by compiled code.
        self._slow: list[tuple[int, int, int, Group]] = []
        #: A list of one so that the hot path reads it without an attribute lookup.
        self._limit = [SHORTEST_SLOW_NS if slowest else 1 << 62]
        self.on_first_use: Callable[[], None] | None = None
        #: What counting a launch takes after it, in ns: a list of one, as above.
        self.own_ns = [0.0]
        #: Gets each begin and end; set before the methods are made.
        self.flight_records: FlightRecords | None = None

    # -- hot path ----------------------------------------------------------------------------------------------

    def recording(  # noqa: C901, PLR0915 - for speed, see below
        self, operation: str, payload: int | None, call: Call
    ) -> Call:
        """Return a method that runs ``call(self, ...)`` and counts it.

        ``call`` takes the process group first; ``payload`` says which of its first two further arguments (0 or 1) holds
        the tensors whose size is counted. Exceptions of ``call`` pass untouched and uncounted.

        Written for speed, hence in one piece: two or three arguments and a list of one tensor are what
        ``torch.distributed`` passes most, and passing arguments on as they came costs half of what ``*args`` does.
        """
        slots: dict[int, Slot] = {}
        self._by_method.append(slots)
        # A list of one, so that what is called can be exchanged while the method is in use, see `mark`.
        calls = [call]
        self._calls.append((calls, call))
        pending, limit, find, keep_slow, now = self._pending, self._limit, self._find, self._keep_slow, clock
        own = self.own_ns
        has_payload, is_second, absent, most = payload is not None, payload == 1, ABSENT, MAXIMUM_PENDING
        begin, end = (None, None) if self.flight_records is None else self.flight_records.of(operation)

        def method(  # noqa: C901, PLR0912 - as above
            self: Any, first: Any = absent, second: Any = absent, third: Any = absent, /, *rest: Any, **kwargs: Any
        ) -> Any:
            work, failed = None, True
            record = begin(self) if begin is not None else None
            started = now()
            try:
                if kwargs or rest or second is absent:
                    given = [argument for argument in (first, second, third) if argument is not absent]
                    work = calls[0](self, *given, *rest, **kwargs)
                elif third is absent:
                    work = calls[0](self, first, second)
                else:
                    work = calls[0](self, first, second, third)
                failed = False
            finally:
                elapsed = now() - started
                if record is not None and end is not None:
                    end(record, work, failed)
            try:
                try:
                    slot = slots[id(self)]
                except KeyError:
                    slot = find(operation, self, slots)
                size = 0
                if has_payload:
                    message = second if is_second else first
                    try:
                        while type(message) is list and len(message) == 1:
                            message = message[0]
                        size = payload_bytes(message) if type(message) is list else message.nbytes
                    except (AttributeError, RuntimeError):
                        size = payload_bytes(message)
                slot[CALLS] += 1
                slot[BYTES] += size
                slot[HOST_TIME] += elapsed
                if len(pending) >= most:
                    pending.pop(next(iter(pending)), None)
                pending[id(work)] = slot, started, elapsed, size
                if elapsed > limit[0]:
                    keep_slow((elapsed, started, size, slot[GROUP]))
                if not slot[CALLS] & RARELY:
                    own[0] += (min(now() - started - elapsed, LONGEST_OWN_NS) - own[0]) * WEIGHT
            except Exception as error:  # noqa: BLE001 - counted
                guard("collectives.record").handle(error)
            return work

        return method

    def waiting(self, call: Call) -> Call:
        """Return a replacement of ``Work.wait`` that adds the time to the operation that was waited for."""
        take, limit, keep_waited, now, absent = self._pending.pop, self._limit, self._keep_waited, clock, ABSENT
        records = self.flight_records

        def wait(self: Any, timeout: Any = absent) -> Any:
            failed = True
            record = records.begin_wait(self) if records is not None else None
            begun = now()
            try:
                result = call(self) if timeout is absent else call(self, timeout)
                failed = False
            finally:
                waited = now() - begun
                if record is not None and records is not None:
                    records.end_wait(record, failed)
                entry = take(id(self), None)
                if entry is not None:
                    slot, started, launched, size = entry
                    slot[WAIT_TIME] += waited
                    if waited + launched > limit[0]:
                        keep_waited((waited + launched, started, size, slot[GROUP]), launched)
            return result

        return wait

    def counting(self, operation: str, source: str) -> Callable[[Any, Any, int, int], Slot]:
        """Return ``count(process group, message, start, ns)`` for collectives that pass no method of :meth:`recording`.

        It may run in any thread, below a lock of PyTorch's C++ code: it takes none, and enters nothing of the SDK. May
        raise. Waits for such a collective are added by :meth:`add_wait`.
        """
        slots: dict[int, Slot] = {}
        self._by_method.append(slots)
        find, limit = self._find, self._limit

        def count(process_group: Any, message: Any, started: int, elapsed: int) -> Slot:
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

    def add_wait(self, slot: Slot, started: int, waited: int) -> None:
        """Add ``waited`` ns since ``started`` to a collective that :meth:`counting` has counted."""
        slot[WAIT_TIME] += waited
        if waited > self._limit[0]:
            self._keep_slow((waited, started, UNKNOWN_SIZE, slot[GROUP]))

    # -- rare --------------------------------------------------------------------------------------------------

    def mark(self, marked: Callable[[Call], Call] | None) -> None:
        """Let the recorded methods call ``marked(call)`` in place of the call itself; None: the call again."""
        for calls, call in self._calls:
            calls[0] = call if marked is None else marked(call)

    def _find(self, operation: str, process_group: Any, slots: dict[int, Slot], source: str = Source.PYTHON) -> Slot:
        """First use of ``process_group`` by a method: groups with the same name and size share a slot."""
        slot: Slot = self._run_rare(self._add_slot, operation, process_group, slots, source)
        return slot

    def _add_slot(self, operation: str, process_group: Any, slots: dict[int, Slot], source: str) -> Slot:
        group = Group(operation, self._group_name(process_group), process_group.size(), source)
        slot = self._slots.setdefault(group, [0, 0, 0, 0, group])
        identity = id(process_group)
        slots[identity] = slot
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

    def _keep_waited(self, slow: tuple[int, int, int, Group], launched: int) -> None:
        """Keep a collective that was waited for, instead of its launch, which may have been kept."""
        launch = (launched, *slow[1:])
        if launch in self._slow:
            self._slow.remove(launch)
            heapq.heapify(self._slow)
        self._keep_slow(slow)

    def _keep_slow(self, slow: tuple[int, int, int, Group]) -> None:
        if len(self._slow) < self._keep:
            heapq.heappush(self._slow, slow)
        else:
            heapq.heappushpop(self._slow, slow)
        if len(self._slow) == self._keep:
            self._limit[0] = max(self._slow[0][0], SHORTEST_SLOW_NS)

    # -- reading -----------------------------------------------------------------------------------------------

    def values(self) -> list[tuple[Group, tuple[int, int, int, int]]]:
        """Every slot with its sums since the process started: calls, bytes, ns launching, ns waiting."""
        return [(group, (slot[0], slot[1], slot[2], slot[3])) for group, slot in list(self._slots.items())]

    def totals(self) -> Totals:
        """Sums over all slots since the process started."""
        columns = zip(*(values for _, values in self.values()), strict=True)
        return Totals(*map(sum, columns)) if self._slots else Totals(0, 0, 0, 0)

    @property
    def keeps(self) -> int:
        """How many of the slowest collectives are kept."""
        return self._keep

    def keep_none(self) -> None:
        """Keep none of the slowest collectives from now on."""
        self._keep = 0
        self._slow.clear()
        self._limit[0] = 1 << 62

    def take_slowest(self) -> list[Slow]:
        """The slowest collectives since the last call, longest first."""
        slow = [Slow(*fields) for fields in sorted(self._slow, reverse=True)]
        self._slow.clear()
        if self._keep:
            self._limit[0] = SHORTEST_SLOW_NS
        return slow

    def reset(self) -> None:
        """Forget everything counted (a forked child starts at zero); the replaced methods stay valid."""
        for slot in self._slots.values():
            slot[:GROUP] = [0] * GROUP
        self._pending.clear()
        self.take_slowest()
