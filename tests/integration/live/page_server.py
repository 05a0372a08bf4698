"""Serves the live page of aggregates that a test fills, and sends what has changed when the test says so."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import tornado.httpserver
import tornado.netutil
import tornado.web

from otel_rl.live import updates

if TYPE_CHECKING:
    from typing_extensions import Self


class PageServer:
    """``with PageServer(page) as server: browser.call("Page.navigate", url=server.url); server.send(message)``."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.watching = threading.Event()
        self._streams: list[tornado.web.RequestHandler] = []
        self._library = updates.bokeh_js()

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Send a message to every browser."""
        text = message.decode() if isinstance(message, bytes) else json.dumps(message)
        asyncio.run_coroutine_threadsafe(self._send(f"data: {text}\n\n"), self._loop).result(30)

    def drop_browsers(self) -> None:
        """End the event streams, as a server that ends does."""
        self.watching.clear()
        asyncio.run_coroutine_threadsafe(self._drop(), self._loop).result(30)

    async def _send(self, text: str) -> None:
        for stream in self._streams:
            stream.write(text)
            await stream.flush()

    async def _drop(self) -> None:
        for stream in self._streams:
            stream.request.connection.stream.close()
        self._streams.clear()

    async def _serve(self, started: threading.Event) -> None:
        server = self

        class Page(tornado.web.RequestHandler):
            def get(self) -> None:
                self.finish(server.page)

        class Library(tornado.web.RequestHandler):
            def get(self) -> None:
                self.set_header("Content-Type", "text/javascript")
                self.finish(server._library)

        class Events(tornado.web.RequestHandler):
            async def get(self) -> None:
                self.set_header("Content-Type", "text/event-stream")
                self.write("retry: 100\n\n")
                await self.flush()
                server._streams.append(self)
                server.watching.set()
                await server._ended.wait()

        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        application = tornado.web.Application([("/", Page), ("/bokeh.js", Library), ("/events", Events)])
        sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
        listener = tornado.httpserver.HTTPServer(application)
        listener.add_sockets(sockets)
        self._port = sockets[0].getsockname()[1]
        started.set()
        await self._ended.wait()
        listener.stop()
        await listener.close_all_connections()
