"""The trace as a stream of events: Chrome JSON, with times in decimal µs since the run's first moment.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from otel_rl.export.safe_json import encoded, microseconds


@dataclass(slots=True)
class TraceEvents:
    """Writes events to ``stream``; ``origin`` is the moment, in ns since the epoch, from which times count."""

    stream: IO[bytes]
    origin: int
    _is_empty: bool = True

    def begin(self, about: dict[str, Any]) -> None:
        """Write what stands before the events."""
        self.stream.write(
            b'{"displayTimeUnit":"ms","baseTimeNanoseconds":%d,"otherData":%b,"traceEvents":[\n'
            % (self.origin, encoded(about))
        )

    def end(self) -> None:
        """Write what stands behind the events."""
        self.stream.write(b"\n]}\n")

    def put(self, event: bytes) -> None:
        """Write an event."""
        self.stream.write(event if self._is_empty else b",\n" + event)
        self._is_empty = False

    def at(self, moment: int) -> bytes:
        """Return the time of an event, from ns since the epoch."""
        return microseconds(moment - self.origin).encode()


def metadata(name: str, pid: int, arguments: dict[str, Any], tid: int = 0) -> bytes:
    """Return an event that names or sorts a process or a thread."""
    return b'{"ph":"M","name":"%b","pid":%d,"tid":%d,"args":%b}' % (name.encode(), pid, tid, encoded(arguments))
