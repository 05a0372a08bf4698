"""Questions to the three backends of a running stack; all poll, since each backend answers when it is ready to."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack import Stack

#: Enough on a machine with much else to do; what goes well never waits for it.
PATIENCE_SECONDS = 120.0
#: Every query looks at the last hour, more than the whole test takes.
WINDOW_SECONDS = 3600


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Poll until ``condition()`` is true and return its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)
    return found


class Backends:
    """Prometheus, Tempo and Loki of one stack."""

    def __init__(self, stack: Stack) -> None:
        self._addresses = stack.addresses

    def _get(self, backend: str, path: str, **query: Any) -> Any:
        url = f"{self._addresses[backend]}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise AssertionError(f"{url}: {error.code} {error.read().decode()}") from error

    def promql(self, query: str) -> list[dict[str, Any]]:
        """Series of an instant query, now."""
        return self._get("prometheus", "/api/v1/query", query=query)["data"]["result"]

    def label_values(self, label: str, selector: str) -> list[str]:
        now = time.time()
        query = {"match[]": selector, "start": now - WINDOW_SECONDS, "end": now + 60}
        return self._get("prometheus", f"/api/v1/label/{label}/values", **query)["data"]

    def exemplars(self, query: str) -> list[dict[str, Any]]:
        now = time.time()
        groups = self._get(
            "prometheus", "/api/v1/query_exemplars", query=query, start=now - WINDOW_SECONDS, end=now + 60
        )["data"]
        return [exemplar for group in groups for exemplar in group["exemplars"]]

    def logql(self, query: str) -> list[dict[str, Any]]:
        """Streams or series of a range query."""
        now = time.time_ns()
        window = {"start": now - WINDOW_SECONDS * 10**9, "end": now + 60 * 10**9, "limit": 5000}
        return self._get("loki", "/loki/api/v1/query_range", query=query, **window)["data"]["result"]

    def traceql(self, query: str) -> list[dict[str, Any]]:
        """Traces that match."""
        now = int(time.time())
        return self._get(
            "tempo", "/api/search", q=query, limit=200, spss=50, start=now - WINDOW_SECONDS, end=now + 60
        ).get("traces", [])

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """All spans of a trace, each with its resource attributes; empty while Tempo does not have it."""
        spans = []
        for batch in self._get("tempo", f"/api/traces/{trace_id}").get("batches", []):
            resource = attributes(batch["resource"])
            for scope in batch["scopeSpans"]:
                spans += [{**span, "resource": resource} for span in scope["spans"]]
        return spans


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a span or resource as Tempo writes them, as a plain dictionary."""
    return {entry["key"]: next(iter(entry["value"].values()), None) for entry in item.get("attributes", [])}
