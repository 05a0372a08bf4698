"""The ledger under a test: sends numbered spans through collectors, is their backend, and accounts for every span."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from integration.collector.collector_process import wait_for

if TYPE_CHECKING:
    from pathlib import Path

RATE = 6000.0
RANKS = 8
SPANS_PER_BATCH = 512  # as the batch processor of the SDKs
SPANS_PER_TRACE = 8
STILL_SECONDS = 8.0
"""Longer than any flush, retry and decision of the configurations under test."""


class Ledger:
    """One ledger process; a context manager that leaves nothing behind."""

    def __init__(self, binary: Path) -> None:
        self.process = subprocess.Popen([str(binary)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        addresses = json.loads(self.process.stdout.readline())
        self.control, self.backend = addresses["control"], addresses["backend"]

    def __enter__(self) -> Ledger:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()

    def _call(self, path: str, order: dict[str, Any] | None = None, *, post: bool = False) -> Any:
        body = json.dumps(order or {}).encode() if order is not None or post else None
        with urllib.request.urlopen(urllib.request.Request(self.control + path, body), timeout=120) as answer:
            return json.loads(answer.read())

    def send(
        self,
        run: str,
        endpoint: str,
        *,
        spans: int = 1 << 40,
        rate: float = RATE,
        ranks: int = RANKS,
        batch: int = SPANS_PER_BATCH,
    ) -> None:
        """Let the ranks of a run send: all together `spans` spans at `rate` a second, 0 for as fast as can be."""
        order = {
            "run": run,
            "endpoint": endpoint,
            "ranks": ranks,
            "spans_per_rank": spans // ranks,
            "spans_per_batch": batch,
            "spans_per_trace": SPANS_PER_TRACE,
            "rate": rate,
        }
        self._call("/send", order)

    def stop(self, run: str) -> dict[str, Any]:
        """Let the ranks end the batches they have begun, and return the account."""
        return dict(self._call(f"/stop?run={urllib.parse.quote(run)}", post=True))

    def report(self, run: str) -> dict[str, Any]:
        """Return the account of a run."""
        return dict(self._call(f"/report?run={urllib.parse.quote(run)}"))

    def progress(self, run: str) -> dict[str, int]:
        """Return how many spans of a run were acknowledged and received; cheaper than the account."""
        return dict(self._call(f"/progress?run={urllib.parse.quote(run)}"))

    def behave(self, mode: str, **how: int) -> None:
        """Change how the backend treats requests: serve, refuse, hang, cut, no_gzip, or status with `status=...`."""
        self._call("/backend", {"mode": mode, **how})

    def counts(self) -> dict[str, Any]:
        """Return how many requests the backend got and refused, and the sums of all counters that came as metrics."""
        return dict(self._call("/counts"))

    def wait_for_spans(self, run: str, number: int, seconds: float = 60.0) -> None:
        """Wait until the backend has got this many different spans of a run."""
        wait_for(lambda: self.progress(run)["received"] >= number, f"{number} spans of {run} at the backend", seconds)

    def wait_for_acknowledged(self, run: str, number: int, seconds: float = 60.0) -> None:
        """Wait until the collector has acknowledged this many spans of a run."""
        wait_for(lambda: self.progress(run)["acked"] >= number, f"{number} spans of {run} acknowledged", seconds)

    def wait_for_all(self, run: str, seconds: float = 120.0) -> dict[str, Any]:
        """Wait until everything that was acknowledged has arrived, and return the account."""
        wait_for(lambda: self.report(run)["lost"] == 0, f"every acknowledged span of {run} at the backend", seconds)
        return self.report(run)

    def wait_for_count(self, name: str, number: float, seconds: float = 60.0) -> None:
        """Wait until a counter that came as metrics has exactly this sum."""
        wait_for(lambda: self.counts()["sums"].get(name) == number, f"{name} = {number:,.0f} at the backend", seconds)

    def wait_until_still(self, run: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until the backend got no request for some seconds or nothing is missing, and return the account."""
        seen: dict[str, float] = {"received": -1, "since": time.monotonic()}

        def still() -> bool:
            account = self.report(run)
            if account["received"] != seen["received"]:
                seen.update(received=account["received"], since=time.monotonic())
            return account["lost"] == 0 or time.monotonic() - seen["since"] > STILL_SECONDS

        wait_for(still, f"an end of what arrives of {run}", seconds)
        return self.report(run)
