"""The body of a raw response that the program reads itself, on its way: ``iter_lines``, ``iter_bytes``, ``read``.

Imported with the first raw response whose body has not been read.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.inference.http.event_streams import EventStream
from otel_rl.inference.http.other_protocols import MessagesEvents
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.instrumentors import httpx_clients
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.inference.calls import InferenceCall

_CHUNK, _EXHAUSTED, _BROKE_OFF = (guard(f"stainless.raw_{site}") for site in ("chunk", "exhausted", "broke_off"))
#: For `zlib`: a stream with the header of gzip.
_GZIP = 31


class RawChunks:
    """Sees the bytes of the answer of ``call`` before the program gets them; ``decode`` makes text of them."""

    def __init__(self, call: InferenceCall, decode: Callable[[bytes], bytes] | None) -> None:
        self._call = call
        self._decode = decode
        self._is_stream = False
        self._events: EventStream | None = EventStream(self._event)

    @property
    def is_being_read(self) -> bool:
        """As in :class:`otel_rl.inference.http.calls.HttpModelCall`."""
        return self._call.is_being_read

    @is_being_read.setter
    def is_being_read(self, value: bool) -> None:
        self._call.is_being_read = value

    def is_followed_by(self, _reader: object, _response: object) -> bool:
        """Every chunk is of interest."""
        return True

    def chunk(self, data: bytes) -> None:
        """Observe ``data``, which the program is about to get."""
        with _CHUNK:
            events = self._events
            if events is not None:
                events.feed(data if self._decode is None else self._decode(data))
                if self._is_stream and self._call.answer.is_complete:
                    self._events = None
                    self._call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)

    def _event(self, data: bytes) -> None:
        if not self._is_stream:
            self._is_stream = True
            is_messages = isinstance(self._call.answer, MessagesAnswer)
            self._call.is_streamed(MessagesEvents if is_messages else partial(StreamedEngineAnswer, 1))
        self._call.observe_chunk(data)

    def exhausted(self) -> None:
        """Note that the program has got the last chunk."""
        with _EXHAUSTED:
            events, self._events = self._events, None
            if events is None:
                return
            # What was no stream may be parsed by the client yet.
            self._call.record_body_read(events.end())
            if self._is_stream:
                self._call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)

    def leave(self, http_response: Any) -> None:
        """Follow no further: the client parses the answer, or makes a stream of it that is followed instead."""
        httpx_clients.leave_chunks(http_response, self)

    def broke_off(self, error: BaseException) -> None:
        """Note that the next chunk did not come."""
        with _BROKE_OFF:
            self._events = None
            self._call.finish(error)


def follow(call: InferenceCall, http_response: Any) -> RawChunks | None:
    """See the chunks of ``http_response``; None where they cannot be read on their way."""
    encoding = http_response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        return None
    chunks = RawChunks(call, zlib.decompressobj(_GZIP).decompress if encoding == "gzip" else None)
    httpx_clients.follow_chunks(http_response, chunks)
    return chunks
