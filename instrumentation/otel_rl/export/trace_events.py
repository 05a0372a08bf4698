"""The trace as a stream of events: Chrome JSON, with times in decimal µs since the run's first moment.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from otel_rl.export.safe_json import encoded, microseconds

#: Integers below it are exact as doubles.
_EXACT = 2**53


@dataclass(slots=True)
class TraceEvents:
    """Writes events to ``stream``.

    Attributes:
        origin: the moment, in ns since the epoch, from which times count.
        grain: times are multiples of it, in ns.
    """

    stream: IO[bytes]
    origin: int
    grain: int = 1
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
        return microseconds(self._rounded(moment)).encode()

    def between(self, start: int, stop: int) -> bytes:
        """Return a duration; what lies inside of another does so after rounding too."""
        return microseconds(self._rounded(stop) - self._rounded(start)).encode()

    def _rounded(self, moment: int) -> int:
        since = moment - self.origin
        return since - since % self.grain


def grain_of(length: int) -> int:
    """Return the grain with which readers compute times of up to ``length`` ns without an error.

    Perfetto reads µs as a double and multiplies by 1000: beyond 104 days that is exact for whole µs alone, beyond two
    years for even ones, and so on.
    """
    if length < _EXACT:
        return 1
    grain, exact = 1000, _EXACT << 3
    while length >= exact:
        grain, exact = grain << 1, exact << 1
    return grain


def metadata(name: str, pid: int, arguments: dict[str, Any], tid: int = 0) -> bytes:
    """Return an event that names or sorts a process or a thread."""
    return b'{"ph":"M","name":"%b","pid":%d,"tid":%d,"args":%b}' % (name.encode(), pid, tid, encoded(arguments))
