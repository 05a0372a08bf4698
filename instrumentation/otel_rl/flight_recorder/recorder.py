"""The ring of this process: made with its first step or collective, or shown before it; left behind by a fork.

``begin`` and ``end`` are variables of this module's one :class:`FlightRecorder`. They point at what the process can do
now: nothing, make the ring, or write into it. The hot path asks no condition.
"""

from __future__ import annotations

import os
import socket
import weakref
from _thread import allocate_lock, get_ident
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core import instrumentor_status, settings, stderr
from otel_rl.core.guard import guard, raised_by_signal_handler, remove_file
from otel_rl.flight_recorder import layout
from otel_rl.process import process_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.flight_recorder.ring import Handle, Ring

NAME = "flight_recorder"
#: Seconds that a thread waits at most for another one that makes the ring.
_LONGEST_MAKING = 1.0
#: A process that does neither of these trains nothing, and gets no ring.
_MAKING = frozenset({layout.STEP, layout.COLLECTIVE})


class FlightRecorder:
    """State of this process; until :meth:`arm` it records nothing.

    ``begin(kind, name, argument, group, sequence, loop=...)`` gives what ``end(handle, failed)`` takes, or None.
    """

    #: False where ``begin`` has nothing to do.
    on: bool
    begin: Callable[..., Handle | None]
    end: Callable[..., None]

    def __init__(self) -> None:
        self.ring: Ring | None = None
        #: Objects whose ``ring_changed()`` is called when there is another ring, or none.
        self.followers: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The thread that makes the ring now.
        self._maker = 0
        self._armed = False
        self._follows = False
        #: It is made before there is something to record: without a word, and the removal of old ones waits.
        self._is_early = False
        self._has_removed_old = False
        #: Rings that this process does not write any more. A map has a descriptor, which its end closes. The number may
        #: be that of a file of the program by then (``os.closerange``). So no map ends before the interpreter does.
        self._kept: list[Ring] = []
        self._turn_off()

    def _turn_off(self) -> None:
        self.on, self.begin, self.end = False, _nothing, _nothing

    def arm(self) -> None:
        """Make a ring with the first step or collective. Called by whoever also ends it: see ``otel_rl.ending``."""
        if settings.current().ring != "on":
            return
        self._armed, self._has_removed_old = True, False
        if self.ring is None:
            self._remove_those_before_exec()
            self._prepare()

    def _remove_those_before_exec(self) -> None:
        """Remove rings of the program that this process was before an exec: it would seem to run, and to be silent."""
        directory = Path(settings.current().ring_directory).expanduser()
        kept = {ring.path for ring in self._kept}
        with guard("flight_recorder.remove_before_exec"):
            stale = [path for path in directory.glob(f"otel-rl-*-{os.getpid()}*{layout.SUFFIX}") if path not in kept]
            if stale:
                # Few processes come here: the others import nothing more.
                from otel_rl.flight_recorder import files  # noqa: PLC0415

                files.remove_own(stale)

    def withdraw(self) -> None:
        """Remove the ring of a process that has nothing to tell; a step or collective makes another one."""
        ring = self.ring
        if ring is not None:
            self._drop_ring()
            with guard("flight_recorder.withdraw"):
                remove_file(ring.path)
            self._prepare()

    def disarm(self) -> None:
        """Record nothing more; the file stays."""
        self._armed = False
        self._drop_ring()
        self._turn_off()

    def _prepare(self) -> None:
        self._making, self._maker = allocate_lock(), 0
        self._notify_followers()
        self.on, self.begin, self.end = True, self._begin_first, _nothing

    def _begin_first(
        self, kind: int, name: str, argument: int = 0, group: str = "", sequence: int = 0, *, loop: int = 0
    ) -> Handle | None:
        ring = self.obtain() if kind in _MAKING else None
        return ring.begin(kind, name, argument, group, sequence, loop=loop) if ring is not None else None

    def obtain(self) -> Ring | None:
        """Return the ring of this process, made now where it has none; None where it can have none."""
        # A signal handler may have interrupted this thread while it makes the ring: it gets none.
        if self.on and self.ring is None and self._maker != get_ident():
            making = self._making
            # Another thread makes it: what begins here meanwhile must be in it.
            if making.acquire(timeout=_LONGEST_MAKING):
                try:
                    self._maker = get_ident()
                    if self.on and self.ring is None:
                        self._make()
                finally:
                    self._maker = 0
                    making.release()
            elif self._making is making:
                # A signal handler that raised may have kept its holder from giving it back: the next one has another.
                self._making = allocate_lock()
        return self.ring

    def show(self) -> None:
        """Make the ring before the first step; where that fails the step tries it again, and says so."""
        if self.on and self.ring is None:
            self._is_early = True
            try:
                self.obtain()
            finally:
                self._is_early = False

    def remove_old_once(self) -> None:
        """Remove rings of processes that are gone; one process of a node is enough."""
        from otel_rl.flight_recorder import files  # noqa: PLC0415 - most processes train nothing
        from otel_rl.flight_recorder.reader import header_text  # noqa: PLC0415

        who = process_identity.current()
        if not self._has_removed_old and who.local_rank in (0, None):
            self._has_removed_old = True
            with guard("flight_recorder.remove_old"):
                files.remove_old(Path(settings.current().ring_directory).expanduser(), header_text(who.id or ""))

    def begin_again(self, handle: Handle | None, step: int | None = None) -> Handle | None:
        """Begin the operation of ``handle`` another time; None where there is no such handle in the present ring."""
        ring = self.ring
        return handle if handle is not None and ring is not None and ring.begin_again(handle, step) else None

    def _make(self) -> None:
        with guard("flight_recorder.create"):
            if _loaded():
                self._create()
        if self.ring is None and not self._is_early:
            self._turn_off()

    def _create(self) -> None:
        from otel_rl.flight_recorder import files  # noqa: PLC0415 - most processes train nothing
        from otel_rl.flight_recorder.ring import create  # noqa: PLC0415

        who = process_identity.current()
        directory = Path(settings.current().ring_directory).expanduser()
        if not self._is_early:
            # First: they may take the room that the new one needs.
            self.remove_old_once()
        try:
            ring = create(directory, files.name(who.id, socket.gethostname(), who.rank))
        except (OSError, AttributeError) as error:
            # AttributeError: os.posix_fallocate is missing.
            if self._is_early:
                return
            _degrade(
                error,
                f"cannot make its ring of {layout.SIZE >> 10} KiB in {settings.current().ring_directory}",
                "; set OTEL_RL_RING_DIR to a directory with room, or OTEL_RL_RING=off",
            )
        else:
            if self.ring is None:
                _identify(ring, who)
                self._follow()
                self._use(ring)
            else:
                # This thread has taken longer than another one has waited for it.
                self._kept.append(ring)
                remove_file(ring.path)

    def _use(self, ring: Ring) -> None:
        self.ring = ring
        self.on, self.begin, self.end = True, ring.begin, ring.end
        self._notify_followers()

    def _notify_followers(self) -> None:
        for follower in list(self.followers):
            follower.ring_changed()

    def _follow(self) -> None:
        if not self._follows:
            self._follows = True
            process_identity.add_listener(self._identity_changed)
            os.register_at_fork(after_in_child=self._forked)

    def _identity_changed(self, who: process_identity.ProcessIdentity) -> None:
        if self.ring is not None:
            _identify(self.ring, who)

    def _forked(self) -> None:
        """Drop the parent's ring. :meth:`Ring.end` refuses its handles that the child has inherited."""
        if self.ring is not None:
            self.ring.places.release()
        self._drop_ring()
        self._has_removed_old = False
        if self._armed:
            self._prepare()

    def _drop_ring(self) -> None:
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.places.stop()
            self._kept.append(ring)
        self._notify_followers()


def _nothing(*_: Any, **__: Any) -> None:
    """Neither begin nor end a record."""


def _identify(ring: Ring, who: process_identity.ProcessIdentity) -> None:
    known = (-1 if number is None else number for number in (who.rank, who.world_size, who.local_rank))
    rank, world_size, local_rank = known
    ring.identify(who.id or "", who.attempt, socket.gethostname(), (rank, world_size, local_rank), who.launcher or "")


def _loaded() -> bool:
    """Return whether the process can still import: not without descriptors, in another root, or under an audit hook."""
    try:
        from otel_rl.flight_recorder import files, reader, ring  # noqa: F401, PLC0415 - tried here
    except Exception as error:
        if raised_by_signal_handler(error):
            raise
        _degrade(error, "its modules could not be loaded")
        return False
    return True


def _degrade(error: Exception, what: str, advice: str = "") -> None:
    directory = settings.current().ring_directory
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    instrumentor_status.report(NAME, instrumentor_status.DEGRADED, f"no ring in {directory}: {reason}")
    # Every process of a node meets the same full disk: its first one says it.
    if process_identity.current().local_rank in (0, None):
        stderr.write_line(f"otel-rl: no flight recorder: {what} ({reason}){advice}")


#: The one of this process.
flight = FlightRecorder()
