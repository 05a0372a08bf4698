"""The local web server of ``otel-rl live``: the list of runs, the page of one run, and its events.

It listens on loopback addresses only, and answers nobody who does not know the token in its address. No request
changes anything. Tornado comes with Bokeh.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
import secrets
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tornado import netutil, web
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError

from otel_rl.live import run_pages, updates
from otel_rl.live.follower import RenderingError
from otel_rl.live.run_watch import RunWatch
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.live.event_log import ServerSentEvent
    from otel_rl.live.run_index import ListedRun, RunIndex

DEFAULT_PORT = 8321
#: Ports after the default one that are tried where it is taken.
_TRIED = 50
#: Seconds for which a run is followed that nobody looks at any more, and how often that is looked at.
_KEPT, _SWEEP = 60.0, 5.0
#: Names of this machine that a browser may have used: any other belongs to a page that wants to look in.
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Milliseconds after which a browser comes again.
_RETRY = b"retry: 2000\n\n"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class CannotServe(Exception):  # noqa: N818 - reads as what it is
    """No server can be started; the message is one line that says what to do."""


class LiveServer:
    """Serves the runs of ``index``; ``watch`` makes the one that follows a run."""

    def __init__(self, index: RunIndex, on_findings: Callable[[RunWatch], None] = lambda _: None) -> None:
        self.index = index
        self.token = secrets.token_urlsafe(24)
        self.port = 0
        self._on_findings = on_findings
        self._watches: dict[str, RunWatch] = {}
        #: Names of runs that are followed although nobody looks at them.
        self.kept: set[str] = set()
        self._server: HTTPServer | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where a browser finds it, with the token."""
        return f"{self.origin}/{self.token}/"

    @property
    def origin(self) -> str:
        """Its address without the token."""
        return f"http://127.0.0.1:{self.port}"

    def listen(self, host: str = "127.0.0.1", port: int | None = None) -> str:
        """Listen; return a sentence for the user where another port had to be taken.

        Raises:
            CannotServe: not on a loopback address, or the wanted port is taken.
        """
        _check_host(host)
        sockets, said = _bind(host, port)
        self.port = sockets[0].getsockname()[1]
        parts = {"server": self}
        routes = [
            (r"/([\w-]+)/", ListPage, parts),
            (r"/([\w-]+)/run/([^/]+)/", RunPage, parts),
            (r"/([\w-]+)/run/([^/]+)/events", Events, parts),
            (r"/([\w-]+)/run/([^/]+)/bokeh.js", Library, parts),
        ]
        application = web.Application(
            routes, default_handler_class=Nothing, default_handler_args=parts, log_function=lambda _: None
        )
        self._server = HTTPServer(application, xheaders=False, max_body_size=0, max_header_size=16384)
        self._server.add_sockets(sockets)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return said

    async def close(self) -> None:
        """Stop listening and following."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for watch in list(self._watches.values()):
            await watch.close()
        self._watches.clear()
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()

    def address_of(self, name: str) -> str:
        """Return where a browser finds the page of a run, with the token."""
        return f"{self.address}run/{quote(name, safe='')}/"

    def address_without_token(self, name: str) -> str:
        """Return the address of the page of a run, for those who must not get the token."""
        return f"{self.origin}/<token>/run/{quote(name, safe='')}/"

    def watch(self, run: ListedRun) -> RunWatch:
        """Return the one that follows ``run``; the same for every browser.

        Raises:
            UnusableInput: it cannot be read.
        """
        watch = self._watches.get(run.name)
        if watch is None:
            watch = self._watches[run.name] = RunWatch(run.path, run.run, self._on_findings)
            watch.start()
        return watch

    def watched(self, name: str) -> RunWatch | None:
        """Return the one that follows the run of this name, if any does."""
        return self._watches.get(name)

    async def _sweep(self) -> None:
        """Stop following runs that nobody looks at any more."""
        while True:
            await asyncio.sleep(_SWEEP)
            for name, watch in list(self._watches.items()):
                is_idle = not watch.is_watched and time.monotonic() - watch.last_used > _KEPT
                if is_idle and name not in self.kept:
                    del self._watches[name]
                    await watch.close()


# -- sockets -----------------------------------------------------------------------------------------------------------


def _check_host(host: str) -> None:
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise CannotServe(
            f"it listens on this machine only, not on {host}: from elsewhere use `ssh -L {DEFAULT_PORT}:127.0.0.1:"
            f"{DEFAULT_PORT} THIS_MACHINE` and open its address there"
        )


def _bind(host: str, port: int | None) -> tuple[list[Any], str]:
    """Bind the wanted port, else the default one or the next that is free; and say which."""
    wanted = DEFAULT_PORT if port is None else port
    for tried in range(wanted, min(wanted + _TRIED, 65536)):
        try:
            sockets = netutil.bind_sockets(tried, host)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CannotServe(f"cannot listen on port {tried} of {host}: {error.strerror or error}") from error
            if port is not None:
                raise CannotServe(f"port {port} of {host} is taken; choose another one, or --port 0 for any") from error
            continue
        return sockets, f"port {wanted} is taken; {tried} it is" if tried != wanted else ""
    raise CannotServe(f"ports {wanted} to {wanted + _TRIED - 1} of {host} are taken; choose one with --port")


# -- pages -------------------------------------------------------------------------------------------------------------


class _Page(web.RequestHandler):
    """What all answers have in common: who may ask, and the headers."""

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, server: LiveServer) -> None:
        """Take the server."""
        self.live = server

    def set_default_headers(self) -> None:
        """Set what keeps a page from being cached, framed or named to others."""
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        self._allow_scripts("")

    def prepare(self) -> None:
        """Refuse names of this machine that are not its own, and who does not know the token."""
        if _name(self.request.headers.get("Host", "")) not in _LOCAL_NAMES:
            raise web.HTTPError(403)
        token = self.request.path.split("/")[1]
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.live.token.encode()):
            raise web.HTTPError(404)

    def write_error(self, status_code: int, **_: Any) -> None:
        """Say what is wrong, without what the request had in it."""
        if status_code == 405:  # noqa: PLR2004 - another method
            self.set_header("Allow", ", ".join(self.SUPPORTED_METHODS))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(_REFUSALS.get(status_code, "That did not work; the terminal of otel-rl live says more.") + "\n")

    def compute_etag(self) -> None:
        """Make none: nothing is kept."""

    def head(self, *arguments: str) -> Any:
        """Answer as GET does, without the content."""
        return self.get(*arguments)

    def _allow_scripts(self, nonce: str) -> None:
        scripts = f"'nonce-{nonce}' 'self'" if nonce else "'none'"
        self.set_header("Content-Security-Policy", _POLICY.format(scripts=scripts))

    def _say(self, status: int, title: str, text: str) -> None:
        self.set_status(status)
        self.finish(run_pages.message(title, text, f"/{self.live.token}/"))


_REFUSALS = {
    403: "This name does not belong to this machine: open the address that otel-rl live has printed.",
    404: "There is nothing here: open the address that otel-rl live has printed. Each start has another one.",
    405: "It is read-only: GET and HEAD.",
}


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdecimal() else host.lower()


class Nothing(_Page):
    """Any other address; whoever does not know the token learns nothing else."""

    def get(self) -> None:
        """Refuse."""
        raise web.HTTPError(404)


class ListPage(_Page):
    """The list of runs."""

    def get(self, _token: str) -> Any:
        """Show the runs of the folder."""
        try:
            runs = self.live.index.runs()
        except UnusableInput as error:
            self._say(200, "No run yet", f"{error}. This page shows it once it is there: load it again.")
            return
        wanted = self.get_query_argument("q", "")
        number = self.get_query_argument("page", "1")
        page = int(number) if number.isdecimal() and len(number) < 10 else 1  # noqa: PLR2004 - no run has more
        nonce = secrets.token_urlsafe(16)
        self._allow_scripts(nonce)
        self.finish(run_pages.runs(str(self.live.index.directory), runs, wanted, page, nonce))


class RunPage(_Page):
    """The page of one run."""

    async def get(self, _token: str, name: str) -> None:
        """Show what was read by now; the events bring the rest."""
        run = self.live.index.find(name)
        watch = self.live.watched(name)
        try:
            if watch is None:
                if run is None:
                    self._say(404, "No such run", f"{name} is not there, or not any more.")
                    return
                watch = self.live.watch(run)
            page = await watch.first_page()
        except (UnusableInput, RenderingError, OSError) as error:
            trouble = watch.trouble if watch is not None and watch.trouble else str(error).splitlines()[0]
            self._say(503, f"{name} cannot be shown", f"{trouble}. The server goes on: load the page again.")
            return
        self._allow_scripts(page.nonce)
        await self.finish(page.html)


class Library(_Page):
    """Bokeh's JavaScript, as it is installed."""

    def get(self, _token: str, _name: str) -> None:
        """Send it; it holds nothing of a run, so a browser may keep it."""
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.set_header("Cache-Control", "private, max-age=86400")
        self.finish(updates.bokeh_js())


class Events(_Page):
    """What happens to a run, as server-sent events."""

    async def get(self, _token: str, name: str) -> None:
        """Send events until the browser leaves."""
        run = self.live.index.find(name) if self.live.watched(name) is None else None
        watch = self.live.watched(name)
        if watch is None:
            # 204 tells a browser not to come again.
            if run is None:
                self.set_status(204)
                return
            try:
                watch = self.live.watch(run)
            except (UnusableInput, OSError):
                self.set_status(503)
                return
        self.set_header("Content-Type", "text/event-stream")
        if self.request.method == "HEAD":
            return
        await self._send(watch)

    async def _send(self, watch: RunWatch) -> None:
        queue = watch.listen(
            _last_event(self.request.headers.get("Last-Event-ID"), self.get_query_argument("since", ""))
        )
        self._queue = queue
        try:
            self.write(_RETRY)
            await self.flush()
            while (sent := await queue.get()) is not None:
                self.write(sent.wire)
                await self.flush()
        except StreamClosedError:
            pass
        finally:
            watch.leave(queue)

    def on_connection_close(self) -> None:
        """End the wait for a further event: the browser has left."""
        queue: asyncio.Queue[ServerSentEvent | None] | None = getattr(self, "_queue", None)
        if queue is not None:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)


def _last_event(header: str | None, query: str) -> int | None:
    text = header or query
    return int(text) if text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - numbers of events are short
