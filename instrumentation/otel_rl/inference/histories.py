"""What a request says, without the messages that earlier calls of its trajectory have recorded.

Each turn of an agent sends the whole conversation again. Where it begins with all messages of an earlier call of the
trajectory, its span has the further ones only, and says how many are before them and which span has these. Any other
history is recorded whole, as one that was rewritten. Only what was recorded counts: of calls at the same time each has
what none had before them.

Memory is a digest for each of the latest :data:`MOST` histories of a trajectory; without content there is none. In it
Python's hash stands for a text of more than :data:`LONG` characters: 64 bits with a key of the process. A text object
keeps its hash, so what a program sends again costs nothing, however long it is.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.trace import format_span_id

from otel_rl.inference import messages
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from otel_rl.inference.messages import Message
    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: Most histories of a trajectory: each turn makes a longer one, of each branch and sub-agent.
MOST = 64
#: Longest text in characters that a digest is made of; of a longer one its length and its hash are.
LONG = 1024
_DIGEST_BYTES = 16


class RecordedHistory(NamedTuple):
    """The first messages of a conversation: how many they are, and the span of the call that they were sent with."""

    number: int
    span_id: str


class RequestMessages:
    """The content of one request.

    Args:
        body: The request.
        trajectory: Where the histories are known; None: all messages are recorded.
    """

    #: What is left out.
    _before: RecordedHistory | None = None

    def __init__(self, body: dict[str, Any], trajectory: OpenTrajectory | None) -> None:
        self._trajectory = trajectory
        self._digests: list[bytes] = []
        #: Attributes for the span.
        self.values: dict[str, Any] = dict(messages.of_request(body, self._new_of))
        if self._before is not None:
            self.values[attributes.RL_INFERENCE_EARLIER_MESSAGES] = self._before.number
            self.values[attributes.RL_INFERENCE_EARLIER_SPAN_ID] = self._before.span_id

    def _new_of(self, said: list[Message]) -> list[Message]:
        """Return the messages that no call has recorded."""
        if self._trajectory is None:
            return said
        self._digests = _digests(said)
        known = self._trajectory.histories or {}
        found = (known.get(digest) for digest in reversed(self._digests))
        self._before = next((history for history in found if history is not None), None)
        return said if self._before is None else said[self._before.number :]

    def were_recorded(self, span: Span) -> None:
        """Let later calls leave out what this one has recorded."""
        if self._trajectory is None or not self._digests or not self.values.get(attributes.GEN_AI_INPUT_MESSAGES):
            return
        if self._trajectory.histories is None:
            self._trajectory.histories = {}
        known, span_id = self._trajectory.histories, format_span_id(span.get_span_context().span_id)
        known[self._digests[-1]] = RecordedHistory(len(self._digests), span_id)
        # Another thread may do the same.
        with suppress(KeyError, RuntimeError, StopIteration):
            while len(known) > MOST:
                del known[next(iter(known))]


def _digests(said: list[Message]) -> list[bytes]:
    """Return a digest of the first message, of the first two and so on; none where a value is no JSON."""
    digest, digests = hashlib.blake2b(digest_size=_DIGEST_BYTES), []
    try:
        for message in said:
            # A newline stands in no JSON: where a message ends is clear.
            digest.update(json.dumps(_brief(_without_empty_texts(message))).encode() + b"\n")
            digests.append(digest.digest())
    except (TypeError, ValueError, RecursionError):
        return []
    return digests


def _without_empty_texts(message: Message) -> Message:
    """Return a message of a tool call alike, whether the program sends its content as null or as an empty text."""
    parts = message["parts"]
    if not any(part.get("content") == "" and part.get("type") == "text" for part in parts):
        return message
    return {**message, "parts": [part for part in parts if part.get("content") != "" or part.get("type") != "text"]}


def _brief(value: Any) -> Any:
    """Return a value of a message with what stands for its long texts."""
    if isinstance(value, str):
        # No message of a program can have the same in their place: it would have to know the hash.
        return value if len(value) <= LONG else {"length": len(value), "hash": str.__hash__(value)}
    if isinstance(value, dict):
        return {key: _brief(each) for key, each in value.items()}
    return list(map(_brief, value)) if isinstance(value, list | tuple) else value
