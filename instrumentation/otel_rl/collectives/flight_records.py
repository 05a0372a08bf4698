"""What the flight recorder gets of collectives: each begin and end, each wait, with group and sequence number.

The number is that of torch, which counts every collective of a group, whoever issued it. So the collective that one
rank waits in can be found in another rank. gloo numbers sends and receives too, which not every rank of the group takes
part in. Those that Python issues are taken off again. ``monitored_barrier`` consists of many and counts as one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.internal_errors import guard
from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.flight_recorder.ring import Handle, Ring

    Known = tuple[Ring, int, "_Group"]
    Begin = Callable[[Any], Any]
    End = Callable[[Any, Any, bool], None]

#: Launched and not yet waited for; a wait for an older one is not recorded.
MAXIMUM_LAUNCHED = 4096
_POINT_TO_POINT = frozenset({Operation.SEND, Operation.RECV})
#: After these the number is read again.
_UNEVEN = frozenset({*_POINT_TO_POINT, Operation.BARRIER})
_RECORD = guard("collectives.flight_records")


class _Group:
    """One process group: its text in the ring, and whether and how it numbers its collectives."""

    __slots__ = ("is_numbered", "taken_off", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_numbered = True
        #: Numbers that went to something else than collectives of the whole group.
        self.taken_off = 0

    def next_number(self, process_group: Any) -> int:
        """The number that the next collective gets; 0 where the backend gives none."""
        if self.is_numbered:
            try:
                # Not public; see ``instrumentors/torch_distributed/sequence_numbers.py``.
                return int(process_group._get_sequence_number_for_group()) + 1 - self.taken_off  # noqa: SLF001
            except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
                self.is_numbered = False
        return 0


class FlightRecords:
    """Functions for :class:`~otel_rl.collectives.recorder.CollectiveRecorder`; one object per process.

    Args:
        describe: Gives the text of a process group: name, description and ranks, separated by tabs.
        run_rare: Runs what is no hot path, given a function and its arguments.
    """

    def __init__(self, describe: Callable[[Any], str], run_rare: Callable[..., Any]) -> None:
        self._describe = describe
        self._run_rare = run_rare
        #: id of the process group -> what is known of it, and what removes it when the group has gone.
        self._groups: dict[int, tuple[_Group, weakref.ref[Any]]] = {}
        #: Per operation: id of the process group -> ring, codes in it, what is known of the group.
        self._by_operation: list[dict[int, Known]] = []
        #: id of the work -> handle of its launch.
        self._launched: dict[int, Handle] = {}

    # -- hot path --------------------------------------------------------------------------------------------------

    def of(self, operation: str) -> tuple[Begin, End]:
        """Return what is called before and after ``operation`` is issued; neither raises.

        The first gets the process group and gives what the second takes: with the work that the call has returned, and
        whether the call has failed.
        """
        known: dict[int, Known] = {}
        self._by_operation.append(known)
        return self._uneven(operation, known) if operation in _UNEVEN else self._even(operation, known)

    def _even(self, operation: str, known: dict[int, Known]) -> tuple[Begin, End]:  # noqa: C901 - one piece, for speed
        launched, find, recorder, most = self._launched, self._find, flight, MAXIMUM_LAUNCHED

        def begin(process_group: Any) -> Handle | None:
            if not recorder.on:
                return None
            try:
                entry = known.get(id(process_group))
                if entry is None or entry[0] is not recorder.ring:
                    entry = find(operation, process_group, known)
                    if entry is None:
                        return None
                ring, codes, group = entry
                if not group.is_numbered:
                    return ring.begin_coded(codes)
                try:
                    # As `_Group.next_number`, without its call.
                    number = process_group._get_sequence_number_for_group() + 1 - group.taken_off  # noqa: SLF001
                except Exception:  # noqa: BLE001 - looked at there
                    number = group.next_number(process_group)
                return ring.begin_coded(codes, number)
            except Exception as error:  # noqa: BLE001 - counted
                _RECORD.handle(error)
                return None

        def end(handle: Handle, work: Any, failed: bool) -> None:
            try:
                recorder.end(handle, failed)
                if work is not None:
                    if len(launched) >= most:
                        launched.pop(next(iter(launched)), None)
                    launched[id(work)] = handle
            except Exception as error:  # noqa: BLE001 - counted
                _RECORD.handle(error)

        return begin, end

    def _uneven(self, operation: str, known: dict[int, Known]) -> tuple[Begin, End]:
        """Return the same for operations that the ranks of a group do not count alike."""
        counts = 0 if operation in _POINT_TO_POINT else 1
        end_even = self._even(operation, known)[1]

        def begin(process_group: Any) -> tuple[Handle, Any, _Group, int] | None:
            try:
                entry = self._find(operation, process_group, known) if flight.on else None
                if entry is None:
                    return None
                ring, codes, group = entry
                before = group.next_number(process_group)
                return ring.begin_coded(codes, before if counts else 0), process_group, group, before
            except Exception as error:  # noqa: BLE001 - counted
                _RECORD.handle(error)
                return None

        def end(begun: tuple[Handle, Any, _Group, int], work: Any, failed: bool) -> None:
            handle, process_group, group, before = begun
            end_even(handle, work, failed)
            after = group.next_number(process_group)
            if group.is_numbered:
                # What the call has counted beyond one collective of the whole group.
                group.taken_off += after - before - counts

        return begin, end

    def begin_wait(self, work: Any) -> Handle | None:
        """Record that a thread waits for ``work``."""
        return self.begin_wait_for(self._launched.pop(id(work), None))

    def begin_wait_for(self, launch: Handle | None) -> Handle | None:
        """Record that a thread waits for the collective whose launch has this handle."""
        try:
            ring = flight.ring
            if launch is None or ring is None or launch[0] is not ring.buffer:
                return None
            return ring.begin_coded(launch[4] & layout.TEXTS_OF_CODES | layout.WAIT, launch[5])
        except Exception as error:  # noqa: BLE001 - counted
            _RECORD.handle(error)
            return None

    def end_wait(self, handle: Handle, failed: bool) -> None:
        """Record that the wait is over."""
        try:
            flight.end(handle, failed)
        except Exception as error:  # noqa: BLE001 - counted
            _RECORD.handle(error)

    # -- rare ------------------------------------------------------------------------------------------------------

    def _find(self, operation: str, process_group: Any, known: dict[int, Known]) -> Known | None:
        """First use of ``process_group`` by a method, or of a ring: the first collective makes it."""
        entry = known.get(id(process_group))
        if entry is not None and entry[0] is flight.ring:
            return entry
        found: Known | None = self._run_rare(self._add, operation, process_group, known)
        return found

    def _add(self, operation: str, process_group: Any, known: dict[int, Known]) -> Known | None:
        ring = flight.obtain()
        if ring is None:
            return None
        identity = id(process_group)
        if identity not in self._groups:
            # By id and not by weak key: that costs three times as much at each use.
            reference = weakref.ref(process_group, lambda _: self._forget(identity))
            self._groups[identity] = _Group(self._describe(process_group)), reference
        group = self._groups[identity][0]
        entry = known[identity] = ring, ring.codes(layout.COLLECTIVE, operation, group.text), group
        return entry

    def _forget(self, identity: int) -> None:
        self._groups.pop(identity, None)
        for known in self._by_operation:
            known.pop(identity, None)
