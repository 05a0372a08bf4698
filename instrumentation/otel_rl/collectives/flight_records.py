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

    from otel_rl.flight_recorder.ring import Handle

    #: A collective that has begun: its record, its process group, what is known of that, its number.
    Begun = tuple[Handle, Any, "_Group", int]

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
        self.taken_off = 0

    def next_number(self, process_group: Any) -> int:
        """The number that the next collective gets; 0 where the backend gives none."""
        if not self.is_numbered:
            return 0
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
        #: id of the work -> operation, text of the group, number.
        self._launched: dict[int, tuple[str, str, int]] = {}

    def begin(self, operation: str, process_group: Any) -> Begun | None:
        """Record that ``operation`` is about to be issued; its result goes to :meth:`end`."""
        if not flight.on:
            return None
        try:
            found = self._groups.get(id(process_group))
            group = found[0] if found is not None else self._run_rare(self._add, process_group)
            number = group.next_number(process_group)
            shown = 0 if operation in _POINT_TO_POINT else number
            given = layout.COLLECTIVE, operation, 0, group.text, shown
            # The first one makes the ring.
            handle = flight.begin(*given) if flight.ring is not None else self._run_rare(flight.begin, *given)
        except Exception as error:  # noqa: BLE001 - counted
            _RECORD.handle(error)
            return None
        return (handle, process_group, group, number) if handle is not None else None

    def end(self, operation: str, begun: Begun, work: Any, *, failed: bool) -> None:
        """Record that the call has returned ``work``, or has failed."""
        try:
            handle, process_group, group, number = begun
            flight.end(handle, failed=failed)
            shown = number
            if operation in _UNEVEN:
                shown, counts = (0, 0) if operation in _POINT_TO_POINT else (number, 1)
                if group.is_numbered:
                    group.taken_off += group.next_number(process_group) - number - counts
            if work is not None:
                launched = self._launched
                if len(launched) >= MAXIMUM_LAUNCHED:
                    launched.pop(next(iter(launched)), None)
                launched[id(work)] = operation, group.text, shown
        except Exception as error:  # noqa: BLE001 - counted
            _RECORD.handle(error)

    def begin_wait(self, work: Any) -> Handle | None:
        """Record that a thread waits for ``work``."""
        launched = self._launched.pop(id(work), None)
        if launched is None:
            return None
        operation, group, number = launched
        return flight.begin(layout.WAIT, operation, 0, group, number)

    def end_wait(self, handle: Handle, *, failed: bool) -> None:
        """Record that the wait is over."""
        flight.end(handle, failed=failed)

    # -- rare ------------------------------------------------------------------------------------------------------

    def _add(self, process_group: Any) -> _Group:
        """First use of ``process_group``. By id and not by weak key: that costs three times as much at each use."""
        identity = id(process_group)
        group = _Group(self._describe(process_group))
        self._groups[identity] = group, weakref.ref(process_group, lambda _: self._groups.pop(identity, None))
        return group
