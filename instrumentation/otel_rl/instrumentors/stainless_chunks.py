"""The body of a raw response that the program reads itself, on its way: ``iter_lines``, ``iter_bytes``, ``read``.

Imported with the first raw response whose body has not been read.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.inference.http.event_streams import EventStream
from otel_rl.inference.http.followed_chunks import FollowedChunks
from otel_rl.inference.http.other_protocols import MessagesEvents
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.instrumentors import httpx_clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.inference.calls import InferenceCall

#: For `zlib`: a stream with the header of gzip.
_GZIP = 31


class RawChunks(FollowedChunks):
    """Sees the bytes of the answer of ``call`` before the program gets them; ``decode`` makes text of them."""

    def __init__(self, call: InferenceCall, decode: Callable[[bytes], bytes] | None) -> None:
        self._call, self._decode = call, decode
        self._events = EventStream(self._event)

    def is_followed_by(self, _reader: object, _response: object) -> bool:
        """Every chunk is of interest."""
        return True

    def _event(self, data: bytes) -> None:
        if not self.is_stream:
            self.is_stream = True
            is_messages = isinstance(self._call.answer, MessagesAnswer)
            self._call.is_streamed(MessagesEvents if is_messages else partial(StreamedEngineAnswer, 1))
        self._call.observe_chunk(data)

    def exhausted(self) -> None:
        """Note that the program has got the last chunk, after which the client ends a span of its own."""
        super().exhausted()
        if not self._call.owned:
            self._call.finish()

    def leave(self, http_response: Any) -> None:
        """Follow no further: the client parses the answer, or makes a stream of it that is followed instead."""
        httpx_clients.leave_chunks(http_response, self)


def follow(call: InferenceCall, http_response: Any) -> RawChunks | None:
    """See the chunks of ``http_response``; None where they cannot be read on their way."""
    encoding = http_response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        return None
    chunks = RawChunks(call, zlib.decompressobj(_GZIP).decompress if encoding == "gzip" else None)
    httpx_clients.follow_chunks(http_response, chunks)
    return chunks
