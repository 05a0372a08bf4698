"""Streams of protocols other than OpenAI's, given as the bytes of each event: Anthropic's Messages."""

from __future__ import annotations

from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.messages_protocol import MessagesAnswer

_TEXT = b'"text_delta"'


class MessagesEvents(MessagesAnswer):
    """Facts of a streamed message."""

    def observe_chunk(self, chunk: bytes) -> None:
        """Take the facts of one event; a piece of text is counted only."""
        if self._content is None and _TEXT in chunk:
            self.output_chunks += 1
        else:
            super().observe_chunk(parsed(chunk))
