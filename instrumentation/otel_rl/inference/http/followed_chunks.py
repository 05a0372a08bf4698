"""What the chunks of an answer do to its call, whoever reads them: a client for models, or any client of HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core.guard import guard
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as StreamEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.inference.calls import InferenceCall
    from otel_rl.inference.http.event_streams import EventStream

_CHUNK, _EXHAUSTED, _BROKE_OFF = (guard(f"chunks.{site}") for site in ("chunk", "exhausted", "broke_off"))


class FollowedChunks:
    """The chunks of the answer of ``_call``, which :mod:`otel_rl.inference.http.chunks` reports."""

    _call: InferenceCall
    #: What splits them, while they are followed.
    _events: EventStream | None = None
    #: They are events, which nobody parses as a whole.
    is_stream = False
    #: Makes text of a chunk.
    _decode: Callable[[bytes], bytes] | None = None
    _is_being_read = False

    @property
    def is_being_read(self) -> bool:
        """True while a method of the client reads the answer, and reports how that ends."""
        return self._is_being_read

    @is_being_read.setter
    def is_being_read(self, value: bool) -> None:
        self._is_being_read = self._call.is_being_read = value

    def awaits_chunk(self, value: bool) -> None:
        """Report whether the program waits for a chunk, if no method of the client reads them."""
        self._call.is_being_read = value

    def chunk(self, data: bytes) -> None:
        """Observe ``data``, which the program is about to get."""
        with _CHUNK:
            events = self._events
            if events is not None:
                events.feed(data if self._decode is None else self._decode(data))
                if self._call.answer.is_complete:
                    self._events = None
                    self._call.finish(ended=StreamEnded.COMPLETED)

    def exhausted(self) -> None:
        """Note that the program has got the last chunk; what is no stream it may parse yet."""
        with _EXHAUSTED:
            events, self._events = self._events, None
            if events is not None:
                self._call.record_body_read(events.end())
                if self.is_stream:
                    self._call.finish(ended=StreamEnded.COMPLETED)

    def broke_off(self, error: BaseException) -> None:
        """Note that the next chunk did not come."""
        with _BROKE_OFF:
            self._events = None
            self._call.finish(error)
