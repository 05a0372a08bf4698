"""What the flight recorder gets of collectives: each begin and end, each wait, with group and sequence number.

The number is that of torch, which counts every collective of a group, whoever issued it. So the collective that one
rank waits in can be found in another rank. gloo numbers sends and receives too, which not every rank of the group takes
part in. Those that Python issues are taken off again. ``monitored_barrier`` consists of many and counts as one.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.internal_errors import guard
from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.flight_recorder.ring import Handle

    #: A collective that has begun: its handle, its process group, what is known of that, its number, the one recorded.
    Begun = tuple[Handle, Any, "_Group", int, int]
    Begin = Callable[[Any], "Begun | None"]
    End = Callable[[Begun, Any, bool], None]

#: Launched and not yet waited for; a wait for an older one is not recorded.
MAXIMUM_LAUNCHED = 4096
_POINT_TO_POINT = frozenset({Operation.SEND, Operation.RECV})
#: After these the number is read again.
_UNEVEN = frozenset({*_POINT_TO_POINT, Operation.BARRIER})
#: What a process group raises whose backend gives no numbers.
_WITHOUT_NUMBERS = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
_RECORD = guard("collectives.flight_records")


class _Group:
    """One process group: its text in the ring, and whether and how it numbers its collectives."""

    __slots__ = ("is_numbered", "taken_off", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_numbered = True
        #: Numbers that went to something else than collectives of the whole group.
        self.taken_off = 0


class FlightRecords:
    """Functions for :class:`~otel_rl.collectives.recorder.CollectiveRecorder`; one object per process.

    Args:
        describe: Gives the text of a process group: name, description and ranks, separated by tabs.
        run_rare: Runs what is no hot path, given a function and its arguments.
    """

    def __init__(self, describe: Callable[[Any], str], run_rare: Callable[..., Any]) -> None:
        self._describe = describe
        self._run_rare = run_rare
        #: id of the process group -> what is known of it.
        self._groups: dict[int, _Group] = {}
        #: id of the process group -> what removes it when the group has gone.
        self._references: dict[int, weakref.ref[Any]] = {}
        #: id of the work -> operation, text of the group, number.
        self._launched: dict[int, tuple[str, str, int]] = {}

    # -- hot path --------------------------------------------------------------------------------------------------

    def of(self, operation: str) -> tuple[Begin, End]:  # noqa: C901 - for speed, hence in one piece
        """Return what is called before and after ``operation`` is issued; neither raises.

        The first gets the process group and gives what the second takes: with the work that the call has returned, and
        whether the call has failed.
        """
        groups, launched, add, run_rare = self._groups, self._launched, self._add, self._run_rare
        recorder, kind, most, record_error = flight, layout.COLLECTIVE, MAXIMUM_LAUNCHED, _RECORD.handle
        has_number, is_uneven, adjust = operation not in _POINT_TO_POINT, operation in _UNEVEN, self._adjust

        def begin(process_group: Any) -> Begun | None:
            if not recorder.on:
                return None
            try:
                try:
                    group = groups[id(process_group)]
                except KeyError:
                    group = run_rare(add, process_group)
                number = 0
                if group.is_numbered:
                    try:
                        # Not public; see ``instrumentors/torch_distributed/sequence_numbers.py``.
                        number = process_group._get_sequence_number_for_group() + 1 - group.taken_off  # noqa: SLF001
                    except _WITHOUT_NUMBERS:
                        group.is_numbered = False
                shown = number if has_number else 0
                if recorder.ring is not None:
                    handle = recorder.begin(kind, operation, 0, group.text, shown)
                else:
                    handle = run_rare(recorder.begin, kind, operation, 0, group.text, shown)
            except Exception as error:  # noqa: BLE001 - counted
                record_error(error)
                return None
            return (handle, process_group, group, number, shown) if handle is not None else None

        def end(begun: Begun, work: Any, failed: bool) -> None:
            try:
                handle, process_group, group, number, shown = begun
                recorder.end(handle, failed)
                if is_uneven and group.is_numbered:
                    adjust(process_group, group, number, has_number)
                if work is not None:
                    if len(launched) >= most:
                        launched.pop(next(iter(launched)), None)
                    launched[id(work)] = operation, group.text, shown
            except Exception as error:  # noqa: BLE001 - counted
                record_error(error)

        return begin, end

    def begin_wait(self, work: Any) -> Handle | None:
        """Record that a thread waits for ``work``."""
        launched = self._launched.pop(id(work), None)
        if launched is None:
            return None
        operation, group, number = launched
        return flight.begin(layout.WAIT, operation, 0, group, number)

    def end_wait(self, handle: Handle, failed: bool) -> None:
        """Record that the wait is over."""
        flight.end(handle, failed)

    # -- rare ------------------------------------------------------------------------------------------------------

    def _add(self, process_group: Any) -> _Group:
        """First use of ``process_group``. By id and not by weak key: that costs three times as much at each use."""
        identity = id(process_group)
        group = self._groups[identity] = _Group(self._describe(process_group))
        self._references[identity] = weakref.ref(process_group, lambda _: self._forget(identity))
        return group

    def _forget(self, identity: int) -> None:
        self._groups.pop(identity, None)
        self._references.pop(identity, None)

    @staticmethod
    def _adjust(process_group: Any, group: _Group, before: int, is_collective: bool) -> None:
        """Take off what the call has counted beyond one collective of the whole group."""
        with suppress(*_WITHOUT_NUMBERS):
            after = process_group._get_sequence_number_for_group() + 1 - group.taken_off  # noqa: SLF001 - see above
            group.taken_off += after - before - is_collective
