"""A backend for tests: a server of OTLP/HTTP and Zipkin v2 in this process that takes or refuses what it is sent."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

OWN = "otelcol-rl"
REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}
ZIPKIN = "/api/v2/spans"
LOGIN_PAGE = -1
"""Answer with a web page and status 200, as a log-in proxy does."""


class Request(NamedTuple):
    """One request: its path, the coding of its body, and the names (spans, metrics) or bodies (logs) of its items.

    The names of its headers are in lower case. `target` is the whole path, `message` the request as OTLP or Zipkin has
    it, `size` the number of its bytes on the wire.
    """

    path: str
    coding: str
    items: list[str]
    headers: dict[str, str]
    target: str = ""
    message: Any = None
    size: int = 0


def take(_request: Request) -> int:
    """Take every request."""
    return 200


class OtlpBackend:
    """The server; a context manager. `answer` gives the HTTP status for each request, 200 takes it."""

    def __init__(
        self, port: int = 0, answer: Callable[[Request], int] = take, context: ssl.SSLContext | None = None
    ) -> None:
        self.answer = answer
        self.taken: list[str] = []
        self.requests = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> OtlpBackend:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def judge(self, request: Request) -> int:
        """Return the status for a request, and keep its items when it is taken."""
        with self._lock:
            self.requests += 1
            status = self.answer(request)
            if status == 200:
                self.taken += request.items
            return status


def _handler_of(backend: OtlpBackend) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            coding = self.headers.get("Content-Encoding", "")
            content = gzip.decompress(body) if coding == "gzip" else body
            headers = {name.lower(): value for name, value in self.headers.items()}
            if self.path.endswith(ZIPKIN):
                suffix, message = ZIPKIN, json.loads(content)
                items = [span["name"] for span in message]
            else:
                suffix = self.path[self.path.rindex("/v1/") :]
                message = REQUESTS[suffix].FromString(content)
                items = list(_items(message))
            status = backend.judge(Request(suffix, coding, items, headers, self.path, message, len(body)))
            page = b"<html>log in</html>" if status == LOGIN_PAGE else b""
            self.send_response(200 if page else status)
            if page:
                self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *arguments: object) -> None:
            """Say nothing on the test's console."""

    return Handler


def _items(message: Any) -> Iterator[str]:
    """The names or bodies of the items, without what a collector says about itself."""
    for field in ("resource_spans", "resource_metrics", "resource_logs"):
        for resource in getattr(message, field, ()):
            names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            if names.get("service.name") == OWN:
                continue
            for scope in getattr(resource, field.replace("resource", "scope")):
                for item in (getattr(scope, kind, ()) for kind in ("spans", "metrics", "log_records")):
                    yield from (getattr(each, "name", "") or each.body.string_value for each in item)
