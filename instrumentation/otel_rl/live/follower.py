"""The aggregates of a run that grows, and snapshots of them."""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import overview
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from otel_rl.report.core.finding import Overview
    from otel_rl.store.reader import RunSource

_READ = 64 * 1024
_DEADLINE = 120

#: Makes a page, or what has changed on it, of aggregates that are closed and what was found.
Build: TypeAlias = "Callable[[Collected, Overview], bytes]"


class RenderingError(Exception):
    """A page could not be made; the message says why, for the user."""


class Progress(NamedTuple):
    """Bytes that were read by now, and those that are left: 0 where all that is written was read."""

    read: int
    left: int


class Follower:
    """Follows one run: the one named ``run`` below ``folder``, or the newest.

    Raises:
        UnusableInput: nothing to read there, or no such run; the message is for the user.
    """

    def __init__(self, folder: Path, run: str | None = None) -> None:
        self._folder, self._run = folder, run
        self.source: RunSource = find_run(folder, run)

    @property
    def is_gone(self) -> bool:
        """True where the folder of the run is not there any more."""
        return not self.source.path.is_dir()

    @property
    def shows_all(self) -> bool:
        """False while earlier steps are still being read: a snapshot has the last ones only."""
        return True

    def poll(self, seconds: float) -> Progress:
        """Read on for about so many seconds."""
        del seconds
        if not self.is_gone:
            self.source = find_run(self._folder, self._run)
        return Progress(self.source.size, 0)

    def begin_rendering(self, build: Build) -> Rendering:
        """Begin to make a page of what was read by now, in a child; see :class:`Rendering`."""
        return Rendering(self.source, build)

    def render(self, build: Build) -> bytes:
        """Return what ``build`` makes of all that was read by now.

        Raises:
            RenderingError: it failed.
        """
        return self.begin_rendering(build).result()


class Rendering:
    """A page that is being made in a child of this process.

    Attributes:
        descriptor: readable when there is something for :meth:`advance`.
    """

    def __init__(self, source: RunSource, build: Build) -> None:
        self.descriptor, writing = os.pipe()
        self._content: list[bytes] = []
        #: Seconds of CPU of the child, once it has ended.
        self.seconds = 0.0
        self._child = os.fork()
        if self._child == 0:
            _render_and_exit(source, build, writing)
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
            raise RenderingError(content.decode(errors="replace") or f"its process ended with status {code}")
        return content

    def cancel(self) -> None:
        """Give it up."""
        os.kill(self._child, signal.SIGKILL)
        os.close(self.descriptor)
        os.waitpid(self._child, 0)


def _render_and_exit(source: RunSource, build: Build, writing: int) -> None:
    """Make the page and end this process, which is a child, whatever happens."""
    code = 1
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_DEADLINE)
        collected = Collected(Reader(source), subjects.load()).read(lambda _: time.monotonic())
        content = build(collected, overview.examine(collected))
        with os.fdopen(writing, "wb") as stream:
            stream.write(content)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing of the parent's may run here
        os.write(writing, f"{error}\n{traceback.format_exc()}".encode(errors="replace")[:_READ])
    finally:
        os._exit(code)
