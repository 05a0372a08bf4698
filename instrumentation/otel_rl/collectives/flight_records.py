"""What the flight recorder gets of collectives: each launch and each wait, with group and number.

The collective that one rank waits in can be found in another rank by its number. There are two kinds of numbers:

* Collectives that Python issues are counted here, in each group from 1 on. All ranks see all of them, so they count
  alike. Sends and receives are not counted, as not every rank of the group takes part in them.
* Those that C++ issues are seen from the moment on at which the kernels are on, which may differ between ranks. They
  have the number of torch, which counts every collective. gloo counts sends and receives too, and ``monitored_barrier``
  as many. Those that Python issues are taken off again.
"""

from __future__ import annotations

import sys
import threading
import weakref
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from otel_rl.collectives import inherited_methods, sequence_numbers
from otel_rl.core.guard import guard
from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.collective_places import clock
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.flight_recorder.collective_places import CollectivePlaces, Place

    #: Whose record it is, where it is, and what it is.
    Handle = tuple[CollectivePlaces, Place, float]

#: Instead of the places of a collective that is not in the ring.
_NOWHERE: Any = (None, None, None)
_POINT_TO_POINT = frozenset({Operation.SEND, Operation.RECV})
#: After these torch's number is read again.
_UNEVEN = frozenset({*_POINT_TO_POINT, Operation.BARRIER})
#: Texts of groups of which it is known how often they were made. A ring has room for fewer.
_MOST_TEXTS = 8 * layout.GROUPS.length
#: Threads whose number is kept: programs may start one for each collective.
_MOST_THREADS = 64
_RECORD = guard("collectives.flight_records")


def begin_late(places: CollectivePlaces | None, what: float, moment: float, error: Exception) -> Place:
    """Return a place after the hot path has failed: its segment is used up, or something is wrong."""
    place = None
    if isinstance(error, IndexError) and places is not None:
        with _RECORD:
            place = places.begin(what, moment)
    else:
        _RECORD.handle(error)
    return _NOWHERE if place is None else place


class ThreadCodes:
    """Numbers of threads, as a launch has them in the ring."""

    def __init__(self) -> None:
        #: Thread -> its number, of those that have launched one: the hot path looks here first.
        self.known = {threading.main_thread().ident or 0: 0.0}

    def of(self, thread: int) -> float:
        """Return the number of a thread, which it keeps where there is room."""
        code = self.known.get(thread)
        if code is None:
            code = float(min(len(self.known), layout.LAST_THREAD) << layout.THREAD_SHIFT)
            if len(self.known) < _MOST_THREADS:
                self.known[thread] = code
        return code


class _RecordedGroup:
    """One process group: its text in the ring, and how its collectives are numbered."""

    __slots__ = ("failed", "is_numbered", "latest", "per_message", "taken_off", "text", "watched")

    def __init__(self, text: str) -> None:
        self.text = text
        #: Number of the latest collective that Python has issued. A list: what the hot path changes fastest.
        self.latest = [0.0]
        #: Launches that have raised.
        self.failed = 0
        #: False where torch gives no number, or it is unknown by now what it counts.
        self.is_numbered = True
        #: Numbers of torch that went to something else than collectives of the whole group.
        self.taken_off = 0
        #: How far a send or receive moves torch's number; None before the first.
        self.per_message: int | None = None
        #: Calls that are moving it now by an amount that is not known yet.
        self.watched = 0

    def number_of_torch(self, process_group: Any) -> int:
        """Return torch's number of the next collective; 0 where it is not known."""
        if not self.is_numbered or self.watched:
            return 0
        number = sequence_numbers.latest_number(process_group)
        if number is None:
            self.is_numbered = False
            return 0
        return number + 1 - self.taken_off

    def take_off(self, moved: int, is_message: bool) -> None:
        """Take off by how much a call of Python has moved torch's number."""
        if is_message:
            if self.per_message is None:
                self.per_message = moved
            # Another thread has issued a collective meanwhile, or did so with the first message.
            if moved != self.per_message or moved > 1:
                self.is_numbered = False
        self.taken_off += moved if is_message else moved - 1


def _begun(places: CollectivePlaces, what: float) -> Handle | None:
    place = places.begin(what, clock())
    return None if place is None else (places, place, what)


class FlightRecords:
    """Functions for :class:`~otel_rl.collectives.recorder.CollectiveRecorder`; one object per process.

    Args:
        describe: Gives the text of a process group, of at most :data:`layout.GROUP_ROOM` bytes. It may not tell it from
            an earlier one that is no more.
        run_rare: Runs what is no hot path, given a function and its arguments.
    """

    def __init__(self, describe: Callable[[Any], str], run_rare: Callable[..., Any]) -> None:
        self._describe = describe
        self._run_rare = run_rare
        #: id of the process group -> what is known of it, and what removes it when the group has gone.
        self._groups: dict[int, tuple[_RecordedGroup, weakref.ref[Any]]] = {}
        #: The calling threads.
        self.threads = ThreadCodes()
        #: Text -> how many process groups had it.
        self._made: dict[str, int] = {}
        #: What holds codes of a ring, by id of the process group.
        self._caches: list[dict[int, Any]] = []
        self._on_change: list[Callable[[], None]] = []
        flight.followers.add(self)

    def group_made(self, process_group: Any) -> None:
        """Count a process group when it is made: some ranks may use it for nothing, and all must count alike."""
        with _RECORD:
            self._group(process_group)

    # -- collectives of Python -----------------------------------------------------------------------------------

    def follow(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` when there is another ring, or none: codes of the old one mean nothing there."""
        self._on_change.append(on_change)

    def known(self, operation: str, process_group: Any) -> tuple[float, list[float], CollectivePlaces | None]:
        """Return the code of a launch in the ring, the latest number and where to write; make the ring."""
        ring, group = flight.obtain(), self._group(process_group)
        latest = [0.0] if operation in _POINT_TO_POINT else group.latest
        if ring is None:
            return 0.0, latest, None
        codes = ring.collective(operation, group.text)
        return codes if latest is group.latest else codes + layout.HAS_NO_NUMBER, latest, ring.places

    def launch_failed(self, process_group: Any, whats: Any, place: int) -> None:
        """Mark a launch of Python that has raised: whether it counts for the other ranks is not known."""
        with _RECORD:
            whats[place] += layout.HAS_FAILED
            group, ring = self._group(process_group), flight.ring
            if ring is not None and not int(whats[place]) & layout.HAS_NO_NUMBER:
                group.failed += 1
                ring.count_failed_launch(group.text, group.failed)

    def wait_failed(self, process_group: Any, whats: Any, place: int) -> None:
        """Mark a launch that has raised although it waits for all ranks: they count it alike, whether it fails or not.

        Arguments of a wrong type have kept it from beginning.
        """
        if isinstance(sys.exc_info()[1], TypeError):
            self.launch_failed(process_group, whats, place)
            return
        with _RECORD:
            whats[place] += layout.IS_WAIT + layout.HAS_FAILED

    def watching(self, operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``call`` of ``operation`` to measure how far it moves torch's number, where that may differ."""
        if operation not in _UNEVEN:
            return call
        is_message = operation in _POINT_TO_POINT

        def watched(process_group: Any, *args: Any, **kwargs: Any) -> Any:
            group = before = None
            try:
                group = self._group(process_group)
                before = self._begin_watching(group, process_group)
            except Exception as error:  # noqa: BLE001 - counted
                _RECORD.handle(error)
            try:
                return call(process_group, *args, **kwargs)
            finally:
                if group is not None and before is not None:
                    with _RECORD:
                        self._end_watching(group, process_group, before, is_message)

        return inherited_methods.calling(call, watched)

    @staticmethod
    def _begin_watching(group: _RecordedGroup, process_group: Any) -> int | None:
        before = sequence_numbers.latest_number(process_group) if group.is_numbered else None
        if before is None:
            group.is_numbered = False
            return None
        if group.watched:
            # Two calls at once: neither knows which of them moves it.
            group.is_numbered = False
        group.watched += 1
        return before

    @staticmethod
    def _end_watching(group: _RecordedGroup, process_group: Any, before: int, is_message: bool) -> None:
        after = sequence_numbers.latest_number(process_group)
        group.watched -= 1
        if after is None:
            group.is_numbered = False
        else:
            group.take_off(after - before, is_message)

    # -- collectives of C++ --------------------------------------------------------------------------------------

    def launch_recorder(self, operation: str) -> Callable[[Any], Handle | None]:
        """Return what records that a launch of ``operation`` begins, given its process group. May raise."""
        known: dict[int, tuple[float, _RecordedGroup]] = {}
        self.follow(known.clear)
        self._caches.append(known)
        counts = operation not in _POINT_TO_POINT

        def begin(process_group: Any) -> Handle | None:
            if not flight.on:
                return None
            entry = known.get(id(process_group)) or self._run_rare(self._add, operation, process_group, known)
            ring = flight.ring
            if entry is None or ring is None:
                return None
            codes, group = entry
            what = codes + (group.number_of_torch(process_group) if counts else layout.HAS_NO_NUMBER)
            what += self.threads.of(get_ident())
            return _begun(ring.places, what)

        return begin

    @staticmethod
    def begin_wait_for(launch: Handle | None) -> Handle | None:
        """Record that a thread waits for the collective whose launch has this handle."""
        return None if launch is None else _begun(launch[0], launch[2] + layout.IS_WAIT)

    @staticmethod
    def end(handle: Handle, failed: bool) -> None:
        """Record that the launch, or the wait, is over. Raises nothing."""
        collective_places.end(handle[1], clock(), failed)

    # -- rare ------------------------------------------------------------------------------------------------------

    def _add(self, operation: str, process_group: Any, known: dict[int, tuple[float, _RecordedGroup]]) -> Any:
        ring = flight.obtain()
        if ring is None:
            return None
        group = self._group(process_group)
        codes = ring.collective(operation, group.text) + layout.IS_NUMBERED_BY_TORCH
        entry = known[id(process_group)] = codes, group
        return entry

    def _group(self, process_group: Any) -> _RecordedGroup:
        identity = id(process_group)
        known = self._groups.get(identity)
        if known is None:
            # By id and not by weak key: that costs three times as much at each use.
            reference = weakref.ref(process_group, lambda _: self._forget(identity))
            known = self._groups[identity] = _RecordedGroup(self._text(process_group)), reference
        return known[0]

    def _text(self, process_group: Any) -> str:
        """Return the text of a new group. Numbers begin again in each, so it tells it from those before."""
        text = self._describe(process_group)
        made = self._made.get(text, 0) + 1
        if made > layout.MOST_GENERATIONS or (made == 1 and len(self._made) >= _MOST_TEXTS):
            return layout.OTHER_TEXT
        self._made[text] = made
        return text if made == 1 else f"{text}\t{made}"

    def ring_changed(self) -> None:
        """Notify the followers that there is another ring now, or none."""
        for on_change in self._on_change:
            on_change()

    def _forget(self, identity: int) -> None:
        self._groups.pop(identity, None)
        for known in self._caches:
            known.pop(identity, None)
