"""The aggregates of a run that grows, and snapshots of them.

    follower = Follower(Path("./otel-rl"))
    while follower.poll(0.1).left:
        ...
    page = follower.render(lambda collected, overview: ...)

A page needs aggregates that are closed: what waits for a later record counts then, and nothing can be added any more.
So a page is made in a forked child, from what the memory holds at that moment, and the aggregates go on to grow here.
The engine is that of ``otel-rl report``, and so is what it finds.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import signal
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report import subjects
from otel_rl.report.core.change_points import EarlierLooks
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import overview
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
#: Seconds after which a rendering is given up.
_DEADLINE = 120
_READ = 64 * 1024

#: Makes a page, or what has changed on it, of aggregates that are closed and what was found.
Build: TypeAlias = "Callable[[Collected, Overview], bytes]"


class RenderingError(Exception):
    """A page could not be made; the message says why, for the user."""


class Progress(NamedTuple):
    """Bytes that were read by now, and those that are left: 0 where all that is written was read."""

    read: int
    left: int


class _Reading:
    """One pass over a run, and its aggregates."""

    def __init__(self, source: RunSource, newest: int | None) -> None:
        self.reader = FollowingReader(source, newest)
        self.collected = Collected(self.reader, subjects.load(), followed=True)
        self.collected.earlier_looks = EarlierLooks()
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
        self._folder, self._run = folder, run
        source = find_run(folder, run)
        self._whole = _Reading(source, None)
        self._recent: _Reading | None = None
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
    def _shown(self) -> _Reading:
        return self._recent or self._whole

    def poll(self, seconds: float) -> Progress:
        """Read on for about so many seconds; the last steps of a large run come first."""
        until = time.monotonic() + seconds
        if self._recent is not None:
            self._recent.read_on(until)
        if self._recent is None or self._recent.is_current:
            self._whole.read_on(until)
        if self._whole.is_current:
            self._recent = None
        reader = self._whole.reader
        return Progress(reader.read, 0 if self._whole.is_current else max(reader.left, 1))

    def begin_rendering(self, build: Build, *, anew: bool = False) -> Rendering:
        """Begin to make a page of what was read by now, in a child; see :class:`Rendering`.

        What was found lately in the series is not looked for again, but with ``anew``: for the page of a run that has
        ended.
        """
        if anew:
            self._shown.collected.earlier_looks = EarlierLooks()
        return Rendering(self._shown, partial(_rendered, build=build))

    def begin_growing(self, build: Callable[[Collected], bytes]) -> Rendering:
        """Begin to make what costs little: of aggregates without rings and traces, and without a look for findings."""
        return Rendering(self._shown, partial(_grown, build=build))

    def render(self, build: Build, *, anew: bool = False) -> bytes:
        """Return what ``build`` makes of all that was read by now; see :meth:`begin_rendering`.

        Raises:
            RenderingError: it failed.
        """
        return self.begin_rendering(build, anew=anew).result()


class Rendering:
    """A page that is being made in a child of this process.

    Attributes:
        descriptor: readable when there is something for :meth:`advance`.
    """

    def __init__(self, reading: _Reading, make: Callable[[_Reading], bytes]) -> None:
        self._reading = reading
        reading.reader.read_ahead()
        reading.collected.settle_tables()
        self.descriptor, writing = os.pipe()
        self._content: list[bytes] = []
        #: Seconds of CPU of the child, once it has ended.
        self.seconds = 0.0
        try:
            self._child = os.fork()
        except OSError:
            # No memory for another process, or too many of them.
            os.close(self.descriptor)
            os.close(writing)
            raise
        if self._child == 0:
            _render_and_exit(reading, make, writing)
        os.close(writing)

    def advance(self) -> bool:
        """Read what the child has written; return whether it has ended. Waits where the descriptor is not readable."""
        part = os.read(self.descriptor, _READ)
        self._content.append(part)
        return not part

    def result(self) -> bytes:
        """Return what was made, once the child has ended.

        Raises:
            RenderingError: it failed.
        """
        while not self.advance():
            pass
        os.close(self.descriptor)
        _, status, usage = os.wait4(self._child, 0)
        self.seconds = usage.ru_utime + usage.ru_stime
        content = b"".join(self._content)
        if code := os.waitstatus_to_exitcode(status):
            reason = content.decode(errors="replace") if code > 0 else f"its process was ended by signal {-code}"
            raise RenderingError(reason or f"its process ended with status {code}")
        stream = io.BytesIO(content)
        self._reading.collected.earlier_looks = pickle.load(stream)  # noqa: S301 - of our own child
        return stream.read()

    def cancel(self) -> None:
        """Give it up."""
        os.kill(self._child, signal.SIGKILL)
        os.close(self.descriptor)
        os.waitpid(self._child, 0)


def _render_and_exit(reading: _Reading, make: Callable[[_Reading], bytes], writing: int) -> None:
    """Make the page and end this process, which is a child, whatever happens."""
    code = 1
    try:
        # A collection would write to all pages of the memory that is shared.
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_DEADLINE)
        reading.collected.ask_apart()
        content = make(reading)
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(reading.collected.earlier_looks, stream)
            stream.write(content)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing of the parent's may run here
        lines = traceback.format_exception(error)
        os.write(writing, f"{type(error).__name__}: {error}\n{''.join(lines)}".encode(errors="replace")[:_READ])
    finally:
        os._exit(code)


def _rendered(reading: _Reading, build: Build) -> bytes:
    _add_waiting(reading)
    collected = reading.collected.close()
    return build(collected, overview.examine(collected))


def _grown(reading: _Reading, build: Callable[[Collected], bytes]) -> bytes:
    _add_waiting(reading)
    reading.collected.close_aggregates()
    return build(reading.collected)


def _add_waiting(reading: _Reading) -> None:
    for record in reading.reader.take_waiting():
        reading.collected.add(record)
