"""One run that is followed while somebody watches it: reads on, looks at its processes, makes pages and events.

Events are messages as :mod:`.updates` describes them: with an id what has changed on the page, without one what the
processes do and how much was read, each second while that changes. Besides them ``beat`` (nothing has changed) and
``reload`` (what a browser has missed is not known any more).

Pages are made in a thread, all else happens in the event loop of the server.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import stderr
from otel_rl.live import updates
from otel_rl.live.event_log import EventLog, ServerSentEvent, event
from otel_rl.live.follower import Follower, Progress, RenderingError
from otel_rl.live.liveness import Liveness
from otel_rl.live.pace import Pace
from otel_rl.live.standing import RecordedStatus, Standing
from otel_rl.report import run_summary
from otel_rl.report.core import output
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_rl.live.follower import Build, Rendered
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview

#: Seconds between two looks, and between two signs of life to a browser.
LOOK, BEAT = 1.0, 5.0
#: Seconds of reading at once, of a first view, and of one look.
_SLICE, _FIRST, _PER_LOOK = 0.05, 1.2, 0.5
#: Events that wait for one browser; more is too slow, and it has to come again.
_QUEUED = 64
#: Seconds in which a browser that got a page asks for events.
_LOADING = 30.0
#: Seconds for which a page serves several browsers, and after which the first one gets what is new at once.
_PAGE_AGE, _STALE = 60.0, 5.0
_NONCE = re.compile(r"'nonce-([\w+/=-]+)'")


class FirstPage(NamedTuple):
    """A page, the number of the event that it is as new as, and the nonce of its scripts."""

    html: bytes
    number: int
    nonce: str
    made: float


class RunWatch:
    """Follows the run in ``folder``; ``on_findings`` gets the run's name and its findings when they are known.

    Raises:
        UnusableInput: nothing to read there; the message is for the user.
    """

    def __init__(
        self,
        folder: Path,
        run: str | None = None,
        on_findings: Callable[[RunWatch], None] = lambda _: None,
        ring_directory: Path | None = None,
    ) -> None:
        self.folder = folder
        self.follower = Follower(folder, run)
        source = self.follower.source
        self.run_id = source.run_id or source.path.name
        self._liveness = Liveness(source.path, self.run_id, ring_directory)
        self._on_findings = on_findings
        self.standing = Standing()
        self._recorded = RecordedStatus()
        self.progress = Progress(0, 1)
        self._ends: dict[str, tuple[object, ...]] = {}
        #: Findings of the last rendering, as JSON.
        self.findings: list[dict[str, Any]] = []
        #: Why the run cannot be followed any more, or just now; and why the page is not made anew.
        self.trouble = self.failure = self._complained_of = ""
        self.is_gone = False
        self.last_used = time.monotonic()
        self._listeners: set[asyncio.Queue[ServerSentEvent | None]] = set()
        self._log = EventLog()
        self._state: dict[str, Any] | None = None
        #: Steps that the charts mark, as the last rendering has found them.
        self._marks: dict[str, list[int]] = {}
        self._page: FirstPage | None = None
        #: When pages were sent to browsers, and the events that these have.
        self._served: list[tuple[float, int]] = []
        self._pace = Pace()
        self._rendering = asyncio.Lock()
        self._said: tuple[Any, ...] = ()
        self._beat = 0.0
        self._is_urgent = False
        self._task: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Follow the run until :meth:`close`."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop following; browsers that listen are told to come again."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.follower.stop()
        for queue in list(self._listeners):
            self._drop(queue)

    @property
    def is_shown(self) -> bool:
        """True where the findings rest on all that was written."""
        return self.is_gone or (not self.progress.left and self._pace.shows_all)

    @property
    def is_watched(self) -> bool:
        """True while a browser listens."""
        return bool(self._listeners)

    async def _follow(self) -> None:
        while not self.is_gone:
            try:
                await self._follow_on()
            except Exception as error:  # noqa: BLE001 - a page that stands still has to say so
                self.trouble = f"following failed, and is tried again: {type(error).__name__}: {error}".splitlines()[0]
                self._complain(self.trouble, "".join(traceback.format_exception(error)))
                self._send_status()
            await asyncio.sleep(LOOK)

    async def _follow_on(self) -> None:
        self._is_urgent = self._look() or self._is_urgent
        await self._read(_PER_LOOK)
        if self.follower.is_gone:
            self._say_gone()
            return
        now = time.monotonic()
        if self._pace.is_due(now, is_urgent=self._is_urgent, is_watched=self.is_watched):
            await self._render_changes(now)
        self._send_status()

    def _complain(self, what: str, details: str) -> None:
        """Say in the terminal what has failed, once."""
        if what != self._complained_of:
            said = f"otel-rl live: {self.run_id}: {what}\n{details.rstrip()}"
            # Text of the run may be in it, and could move the cursor of a terminal.
            stderr.write_line("".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in said))
        self._complained_of = what

    def _look(self) -> bool:
        """Look at the processes; return whether something urgent is new."""
        before = {(finding.code, *finding.ranks) for finding in self.standing.findings}
        was_over = self.standing.is_over
        try:
            self.standing = self._liveness.look()
            if not self.standing.processes:
                self.standing = self._recorded.standing(time.monotonic())
        except OSError as error:
            self.trouble = f"the folder of the run cannot be read: {error.strerror or error}"
            return False
        found = {(finding.code, *finding.ranks) for finding in self.standing.findings}
        if found - before:
            self._on_findings(self)
        return bool(found - before) or self.standing.is_over != was_over

    async def _read(self, seconds: float) -> None:
        """Read on for so many seconds, with room for others between two slices."""
        if self._rendering.locked():
            return
        until, before = time.monotonic() + seconds, (self.progress.read, self._ends)
        try:
            self.progress = self.follower.poll(_SLICE)
            while self.progress.left and time.monotonic() < until:
                await asyncio.sleep(0)
                self.progress = self.follower.poll(_SLICE)
        except (OSError, UnusableInput) as error:
            self.trouble = str(error)
            return
        self.trouble, self._ends = "", self.follower.ends
        if (self.progress.read, self._ends) != before:
            self._pace.has_read(time.monotonic())

    # -- pages -----------------------------------------------------------------------------------------------------

    async def first_page(self) -> FirstPage:
        """Return the page for a browser, as new as can be without making one for each browser.

        Raises:
            RenderingError: it could not be made.
        """
        self.last_used = now = time.monotonic()
        page = self._page
        if page is None or now - page.made > _PAGE_AGE or self._log.since(page.number) is None:
            if not self.standing.processes:
                self._look()
            if not self.progress.read:
                await self._read(_FIRST)
            await self._render(with_page=True)
            page = self._page
        assert page is not None  # noqa: S101 - it was made
        self._served.append((time.monotonic(), page.number))
        return page

    async def _render_changes(self, now: float) -> None:
        is_whole = self._is_urgent or self.standing.is_over or not self.is_watched or self._state is None
        is_whole = is_whole or self._pace.is_whole_due(now)
        try:
            await (self._render(with_page=False) if is_whole else self._render_curves())
        except (RenderingError, OSError) as error:
            self.failure = f"the page could not be made anew: {error}".splitlines()[0]
            self._complain(self.failure, str(error))

    async def _render(self, *, with_page: bool) -> None:
        async with self._rendering:
            state = self._state if self.is_watched or with_page else None
            is_over = self.standing.is_over and not self.progress.left
            build = _build(state, with_page=with_page, with_summary=is_over)
            content = json.loads(await self._result(partial(self.follower.render, build, anew=is_over)))
            now = time.monotonic()
            self._is_urgent, self.failure = False, ""
            self.findings, self._marks = content["findings"], content["marks"]
            self._take(content, now)
        self._on_findings(self)

    async def _result(self, make: Callable[[], Rendered], *, is_whole: bool = True) -> bytes:
        """Return what is made in a thread, and keep what that took."""
        try:
            content, seconds = await _in_thread(make)
        except RenderingError as error:
            self._pace.failed(time.monotonic(), error.seconds, is_whole=is_whole)
            raise
        self._pace.rendered(time.monotonic(), seconds, is_whole=is_whole)
        return content

    async def _render_curves(self) -> None:
        """Send what costs little to make: the steps, the curves and the key figures."""
        async with self._rendering:
            assert self._state is not None  # noqa: S101 - nobody listens without a page
            build = partial(updates.growth, state=self._state, marks=self._marks)
            changes = json.loads(await self._result(partial(self.follower.grow, build), is_whole=False))
            now = time.monotonic()
            self._take({"changes": changes}, now)

    def _take(self, content: dict[str, Any], now: float) -> None:
        """Send what has changed, and keep the page."""
        changes = content.get("changes")
        if changes is not None:
            self._state = changes.pop("state")
            status = changes.pop("status", None)
            if status is not None:
                # What the rings say of the processes is newer than what they have recorded.
                self._recorded = RecordedStatus(status, now)
            if changes:
                self._send(self._log.append("message", json.dumps(changes).encode()))
        page = content.get("page")
        if page is not None:
            self._state, self._recorded = page["state"], RecordedStatus(page["status"], now)
            nonce = _NONCE.search(page["html"][:4096])
            self._page = FirstPage(
                page["html"].encode("utf-8", "replace"), self._log.number, nonce[1] if nonce else "", now
            )

    # -- events ----------------------------------------------------------------------------------------------------

    def listen(self, last: int | None) -> asyncio.Queue[ServerSentEvent | None]:
        """Return a queue of events from now on, and of those after the event ``last``; None ends it."""
        self.last_used = now = time.monotonic()
        if not self.is_watched and self._page is not None and now - self._page.made > _STALE:
            # What was rendered meanwhile was for findings alone: all of the page is as old as it was.
            self._is_urgent = True
        queue: asyncio.Queue[ServerSentEvent | None] = asyncio.Queue(_QUEUED + 64)
        missed = self._log.since(self._of_served_page() if last is None else last)
        for each in [event("reload", {})] if missed is None else missed:
            queue.put_nowait(each)
        queue.put_nowait(event("message", self.status()))
        self._listeners.add(queue)
        # What was read while nobody listened is not on its page.
        self._pace.has_read(now)
        return queue

    def leave(self, queue: asyncio.Queue[ServerSentEvent | None]) -> None:
        """Stop sending events into ``queue``."""
        self._listeners.discard(queue)
        self.last_used = time.monotonic()

    def _of_served_page(self) -> int:
        """Return the event that the page of a new browser has: of those served just now the oldest, to be sure."""
        now = time.monotonic()
        self._served = [(moment, number) for moment, number in self._served if now - moment < _LOADING]
        known = [number for _, number in self._served]
        return min(known) if known else self._page.number if self._page is not None else self._log.number

    def status(self) -> dict[str, Any]:
        """Return what can be said without a rendering, as a message for the page."""
        status = self.standing.as_json()
        troubles = [said for said in (self.trouble, self.failure) if said]
        said = [{"code": "unreadable", "severity": "warning", "title": one, "text": f"{one}."} for one in troubles]
        status["findings"] = [*said, *status["findings"]]
        if self.is_gone:
            status["state"] = "gone"
        status["step"] = self.standing.last_step(self._recorded.step)
        progress = {"read": self.progress.read, "left": self.progress.left, "shows_all": self.follower.shows_all}
        return {"status": {"run": self.run_id, "at_unix_nano": time.time_ns(), **status}, "progress": progress}

    def _send_status(self) -> None:
        signs = [(sign.state, sign.step, sign.phase) for sign in self.standing.processes]
        said = signs, [finding.text for finding in self.standing.findings], self.progress, self.trouble, self.failure
        now = time.monotonic()
        if said != self._said:
            self._said, self._beat = said, now
            self._send(event("message", self.status()))
        elif now - self._beat >= BEAT:
            self._beat = now
            self._send(event("beat", {"at_unix_nano": time.time_ns()}))

    def _say_gone(self) -> None:
        self.is_gone = True
        self.trouble = f"the folder {self.folder} was deleted or moved; what is shown is what had been read of it"
        self._send(event("message", self.status()))

    def _send(self, sent: ServerSentEvent) -> None:
        for queue in list(self._listeners):
            if queue.full():
                self._drop(queue)
            else:
                queue.put_nowait(sent)

    def _drop(self, queue: asyncio.Queue[ServerSentEvent | None]) -> None:
        """End the stream of a browser that is too slow, or whose run is not followed any more."""
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def _build(state: dict[str, Any] | None, *, with_page: bool, with_summary: bool) -> Build:
    """Return what makes the findings, the page, what has changed since ``state``, and the run's summary."""

    def build(collected: Collected, overview: Overview) -> bytes:
        if with_summary:
            # Where the folder may not be written, lists read the ends of its files.
            run_summary.write(collected, overview)
        content: dict[str, Any] = {"findings": output.as_json(overview)["findings"], "marks": overview.marks()}
        if state is not None:
            content["changes"] = json.loads(updates.changes(collected, overview, state))
        if with_page:
            content["page"] = json.loads(updates.first_page(collected, overview))
        return json.dumps(content).encode()

    return build


async def _in_thread(make: Callable[[], Rendered]) -> Rendered:
    """Return what ``make`` returns in a thread that does not keep this process from ending."""
    done: Future[Rendered] = Future()

    def _run() -> None:
        # It ends what it has begun although nobody waits any more.
        done.set_running_or_notify_cancel()
        try:
            done.set_result(make())
        except BaseException as error:  # noqa: BLE001 - whoever waits has to know
            done.set_exception(error)

    Thread(target=_run, name="otel-rl page", daemon=True).start()
    return await asyncio.wrap_future(done)
