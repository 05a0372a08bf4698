"""The tables of a run that grows, and pages of them.

    follower = Follower(Path("./otel-rl"))
    while follower.poll(0.1).left:
        ...
    page = follower.render(lambda collected, overview: ...)

Reading on and making pages take turns: :meth:`Follower.poll` returns at once while another thread makes a page, and
:meth:`Follower.stop` comes before the end of the process: a thread that Python ends inside of SQLite is a crash. The
engine is that of ``otel-rl report``, and so is what it finds.
"""

from __future__ import annotations

import threading
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.kept_answers import EarlierLooks
from otel_rl.report.subjects import overview
from otel_rl.store.reader.errors import NoRoom
from otel_rl.store.reader.following import FollowingReader
from otel_rl.store.reader.locate import find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from otel_rl.report.core.finding import Overview
    from otel_rl.store.reader.locate import RunSource

#: Bytes of a run up to which all of it is read before anything is shown, and of the ends of a larger one: as much as
#: is read in about a second. A step of a process takes some 7 kB.
FIRST_VIEW = 6 * 1024 * 1024
_BYTES_OF_STEPS = 500 * 8 * 1024
#: Seconds between two requests to end what is made.
_STOPPING = 0.02
#: Seconds for which a series is not looked at again for a change.
_FRESH = 30.0
#: Seconds until a run is read again after the disk was full.
_WITHOUT_ROOM = 60.0

#: Makes a page, or what has changed on it, of a run and what was found.
Build: TypeAlias = "Callable[[Collected, Overview], bytes]"


class RenderingError(Exception):
    """A page could not be made; the message says why, for the user.

    Attributes:
        seconds: seconds of CPU that the attempt took.
    """

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class Progress(NamedTuple):
    """Bytes that were read by now, and those that are left: 0 where all that is written was read."""

    read: int
    left: int


class Rendered(NamedTuple):
    """What was made, and the seconds of CPU that it took."""

    content: bytes
    seconds: float


class _Reading:
    """One pass over a run, and its aggregates."""

    def __init__(self, source: RunSource, newest: int | None) -> None:
        self.reader = FollowingReader(source, newest)
        self.collected = Collected(self.reader, subjects.load())
        self.collected.earlier_looks = EarlierLooks(_FRESH)
        self.is_current = False

    def read_on(self, until: float) -> None:
        self.is_current = False
        for record in self.reader.appended():
            self.collected.add(record)
            if time.monotonic() > until:
                return
        self.is_current = True


class Follower:
    """Follows one run: the one named ``run`` below ``folder``, or the newest.

    Of a large run the ends of its files are read first, so that the first page shows the last steps at once.

    Raises:
        UnusableInput: nothing to read there, or no such run; the message is for the user.
    """

    def __init__(self, folder: Path, run: str | None = None) -> None:
        source = find_run(folder, run)
        self._folder, self._run = folder, run
        self._whole = _Reading(source, None)
        #: The last error about a full disk, and when to try again.
        self._no_room: NoRoom | None = None
        self._tried_again = 0.0
        self._recent: _Reading | None = None
        self._progress = Progress(0, 1)
        self._turn = threading.Lock()
        self._is_stopped = False
        if source.size > FIRST_VIEW:
            streams = max(len({(id(file.process), file.signal) for file in source.files}), 1)
            newest = min(FIRST_VIEW // streams, _BYTES_OF_STEPS)
            # Processes count what was read of them: each pass has its own.
            self._recent = _Reading(find_run(folder, run), newest)

    @property
    def source(self) -> RunSource:
        """The run, its processes and files as they are now."""
        return self._shown.reader.source

    @property
    def is_gone(self) -> bool:
        """True where the folder of the run is not there any more."""
        return self._shown.reader.is_gone

    @property
    def shows_all(self) -> bool:
        """False while earlier steps are still being read: a snapshot has the last ones only."""
        return self._recent is None

    @property
    def ends(self) -> dict[str, tuple[object, ...]]:
        """Exit state of each process by its key; a process may write it after its last record."""
        return {
            process.key: (process.clean_exit, process.exit_status, (process.manifest or {}).get("exit_reason"))
            for process in self.source.processes
        }

    @property
    def _shown(self) -> _Reading:
        return self._recent or self._whole

    def poll(self, seconds: float) -> Progress:
        """Read on for about so many seconds, and not at all while a page is made; the last steps come first.

        Raises:
            UnusableInput: it cannot be read just now.
            NoRoom: the disk is full; the run is read from its start after a pause.
        """
        if self._turn.acquire(blocking=False):
            try:
                self._progress = self._read_on(time.monotonic() + seconds)
            except NoRoom as error:
                self._start_over(error)
                raise
            finally:
                self._turn.release()
        return self._progress

    def _start_over(self, error: NoRoom) -> None:
        """Discard half-written tables; the run is read from its start after a pause."""
        if error is not self._no_room:
            self._whole, self._recent = _Reading(find_run(self._folder, self._run), None), None
            self._no_room, self._tried_again = error, time.monotonic() + _WITHOUT_ROOM

    def _read_on(self, until: float) -> Progress:
        if self._no_room is not None and time.monotonic() < self._tried_again:
            raise self._no_room
        if self._recent is not None:
            self._recent.read_on(until)
        if self._recent is None or self._recent.is_current:
            self._whole.read_on(until)
        if self._whole.is_current:
            self._recent = None
        reader = self._whole.reader
        return Progress(reader.read, 0 if self._whole.is_current else max(reader.left, 1))

    def render(self, build: Build, *, anew: bool = False) -> Rendered:
        """Return what ``build`` makes of all that was read by now.

        What was found lately in the series is not looked for again, but with ``anew``: for the page of a run that has
        ended.

        Raises:
            RenderingError: it failed.
        """

        def _make(reading: _Reading) -> bytes:
            if anew:
                reading.collected.earlier_looks = EarlierLooks(_FRESH)
            reading.reader.count_cut_off()
            reading.collected.settle()
            collected = reading.collected.complete()
            return build(collected, overview.examine(collected))

        return self._made(_make)

    def grow(self, build: Callable[[Collected], bytes]) -> Rendered:
        """Return what costs little to make: without rings and traces, and without a look for findings.

        Raises:
            RenderingError: it failed.
        """

        def _make(reading: _Reading) -> bytes:
            reading.collected.settle()
            return build(reading.collected)

        return self._made(_make)

    def stop(self) -> None:
        """Cancel the page that another thread is making, and refuse later ones."""
        self._is_stopped = True
        while not self._turn.acquire(timeout=_STOPPING):
            self._shown.collected.tables.stop()
        self._turn.release()

    def _made(self, make: Callable[[_Reading], bytes]) -> Rendered:
        with self._turn:
            if self._is_stopped:
                raise RenderingError("the run is not followed any more")
            begin = time.thread_time()
            try:
                content = make(self._shown)
            except Exception as error:
                if isinstance(error, NoRoom):
                    self._start_over(error)
                said = *traceback.format_exception_only(error), *traceback.format_exception(error)
                raise RenderingError("".join(said), time.thread_time() - begin) from error
            return Rendered(content, time.thread_time() - begin)
