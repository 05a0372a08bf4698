"""Inference engines as a scraper sees them: servers on loopback that answer with recorded metrics."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

RECORDED = Path(__file__).parent / "engine_exposition"
VLLM, SGLANG, ROUTER = ((RECORDED / f"{name}.txt").read_text() for name in ("vllm", "sglang", "sglang_router"))
#: What the engines call it; the router's has no version.
TEXT = "text/plain; version=0.0.4; charset=utf-8"
#: The replica behind the router.
WORKER = "127.0.0.1:32079"

Answer = tuple[int, dict[str, str], "Iterable[bytes]"]


def at(scrape: int, text: str) -> str:
    """Return the recorded text as it is at a scrape, 1 the first: counters and histograms rise by as much each time."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))

    def risen(sample: re.Match[str]) -> str:
        name = sample["name"]
        kind = kinds.get(name) or kinds.get(re.sub(r"_(bucket|sum|count)$", "", name))
        value = float(sample["value"]) * (scrape if kind in ("counter", "histogram") else 1)
        return f"{name}{sample['labels']} {value}"

    return re.sub(r"^(?P<name>[a-z][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)$", risen, text, flags=re.MULTILINE)


class Engine:
    """A server of one path, inside of `with`; ``answers`` makes the answer to each scrape, by its number.

    Attributes:
        scrapes: answers that it has begun.
        sent: bytes of answers that were taken from it.
    """

    def __init__(self, text: str = "", path: str = "/metrics", answers: Callable[[int], Answer] | None = None) -> None:
        self.path, self.scrapes, self.sent = path, 0, 0
        self._answers = answers or (lambda number: (200, {"Content-Type": TEXT}, [at(number, text).encode()]))
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.answer(self)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name in the standard library
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request until its sender has gone."""
        if request.path != self.path:
            request.send_error(404)
            return
        self.scrapes += 1
        status, headers, body = self._answers(self.scrapes)
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        try:
            for piece in body:
                request.wfile.write(piece)
                self.sent += len(piece)
        except OSError:
            return

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
