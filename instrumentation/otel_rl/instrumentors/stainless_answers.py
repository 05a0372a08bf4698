"""Following an answer that the program reads later: streams and raw responses, their types and laziness untouched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.inference import failures
from otel_rl.inference.streams import follow, follow_async
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.inference.calls import InferenceCall
    from otel_rl.instrumentors.patching import Patches

#: Where a stream or raw response keeps the call it belongs to. Not on the call's side: a cycle would delay its release.
CALL = "_otel_rl_call"
#: Where a raw response keeps what sees its body on the way to the program.
_CHUNKS = "_otel_rl_chunks"
_ANSWER = guard("stainless.answer")
#: What JSON may be in place of an object.
_NO_ANSWERS = (list, bool, int, float)


def follow_stream(call: InferenceCall, stream: Any) -> None:
    """Watch ``stream``: only the iterator inside it is replaced, ``isinstance`` and its attributes stay as they are."""
    observer = None if call.owned else getattr(stream, "_observer", None)
    if observer is not None:
        stream.response.stream.stream_observer = _Observer(call, observer)
    else:
        chunks = stream._iterator  # noqa: SLF001 - a private name, the same in all supported versions
        stream._iterator = (follow_async if hasattr(chunks, "__anext__") else follow)(call, chunks)  # noqa: SLF001
    setattr(stream, CALL, call)
    call.watch_for_garbage(stream)


class _Observer:
    """Sees the events of a stream before the ``observer`` by which the client records them, and ends, on its own span.

    Source: ``anthropic._tracing.StreamObserver`` (2.12).
    """

    def __init__(self, call: InferenceCall, observer: Any) -> None:
        self._call, self._observer = call, observer

    def begin(self) -> None:
        """Note that the client parses the body."""
        self._observer.begin()

    def item(self, item: Any) -> None:
        """Observe an event that the program is about to get."""
        self._call.chunk(item)
        self._observer.item(item)

    def end(self, how: str, error: BaseException | None = None) -> None:
        """End with the body, which was ``read``, ``closed`` or ``failed``; the first of several ends counts."""
        with guard("stainless.stream_end"):
            in_flight = sys.exc_info()[1]
            is_cancelled = type(in_flight).__name__ == "CancelledError"
            self._end(how == "read", in_flight if is_cancelled else error)
        self._observer.end(how, error)

    def _end(self, is_read: bool, error: BaseException | None) -> None:
        call = self._call
        if call.owner_ends():
            return
        if is_read and not call.answer.is_complete:
            # The server has cut it short.
            call.answer.failure = call.answer.failure or failures.UNNAMED
        values = RlInferenceStreamEndedValues
        call.finish(error, values.COMPLETED if is_read else None if error else values.CLOSED)


def follow_raw(call: InferenceCall, response: Any) -> None:
    """Watch a raw response: its call ends when it is parsed, closed or dropped, at the time its body was complete.

    A stream that the program reads itself ends it, too.
    """
    http_response = response.http_response
    if getattr(http_response, "is_closed", False):
        call.record_body_read(_body(http_response))
    setattr(response, CALL, call)
    call.watch_for_garbage(response)
    if not call.has_ended:
        from otel_rl.instrumentors import stainless_chunks  # noqa: PLC0415 - few programs read an answer themselves

        chunks = stainless_chunks.follow(call, http_response)
        if chunks is not None:
            setattr(response, _CHUNKS, chunks)
            # The program may keep what is inside alone.
            call.watch_for_garbage(http_response)


def _leave_chunks(response: Any) -> None:
    """Let the client read the body, from which it is about to parse a model or a stream."""
    with guard("stainless.leave_chunks"):
        chunks = vars(response).pop(_CHUNKS, None)
        if chunks is not None:
            chunks.leave(response.http_response)


def observe_close(module: ModuleType, name: str, patches: Patches) -> None:
    """End the call of a stream or raw response of the class ``name`` when the program closes it."""
    patches.observe(module, f"{name}.close", begin=closing, end=closed, required=True)


def closing(answer: Any) -> tuple[Any, str]:
    """Return ``answer``, a stream or raw response, and COMPLETED when it was read to its end before the close."""
    # The program's transport made the response, and may have made a class of its own for it.
    with guard("stainless.before_close"):
        if _CHUNKS in vars(answer):
            # httpx2 closes the response with an iterator that the program leaves.
            is_complete = vars(answer)[CALL].has_ended
        else:
            is_complete = getattr(vars(answer).get("http_response"), "is_closed", False)
        if is_complete:
            return answer, RlInferenceStreamEndedValues.COMPLETED
    return answer, RlInferenceStreamEndedValues.CLOSED


def closed(state: tuple[Any, str], _: object, __: object) -> None:
    """End the call of what :func:`closing` has returned."""
    answer, ended = state
    # The helpers' streams keep the one that was answered inside; another instrumentor may have put its own there.
    call = getattr(vars(answer).get("_raw_stream", answer), CALL, None)
    if call is not None:
        _take_body(call, answer, is_whole=ended == RlInferenceStreamEndedValues.COMPLETED)
        call.finish(ended=ended)


def parsing(response: Any, *_: Any, **__: Any) -> InferenceCall | None:
    """Return the call of a raw response that is about to be parsed, if it is followed."""
    call: InferenceCall | None = vars(response).get(CALL)
    if call is not None:
        _leave_chunks(response)
    return call


def parsed(call: InferenceCall, answer: Any, error: BaseException | None) -> None:
    """Follow or end the call with what the client made of its answer."""
    if error is not None:
        call.finish(error)
        return
    call.body = None
    answered(call, answer)


def sent(call: InferenceCall, answer: Any, error: BaseException | None) -> None:
    """Leave the call, whose client has sent the request."""
    call.leave()
    if error is None:
        answered(call, answer)
    else:
        call.finish(error)


def complete(call: InferenceCall, answer: Any) -> None:
    """End the call with a complete answer, before the program gets it."""
    if isinstance(answer, _raw_types):
        answer = vars(answer)["http_response"]
        if not answer.is_closed:
            return
    if not isinstance(answer, _stream_types):
        answered(call, answer)


def answered(call: InferenceCall, answer: Any) -> None:
    """Follow a stream or a raw response, end the call at any other answer."""
    if not call.is_recorded:
        _take(call, answer)


def _take(call: InferenceCall, answer: Any) -> None:
    with _ANSWER:
        if isinstance(answer, _stream_types):
            if CALL not in vars(answer):
                follow_stream(call, answer)
            return
        if isinstance(answer, _raw_types):
            follow_raw(call, answer)
            return
        if _is_http_response(answer):
            call.record_body_read(_body(answer))
        else:
            call.answer.observe(answer)
            if answer is None or type(answer) in _NO_ANSWERS:
                # JSON of a server that is none of this protocol, with a status of 200.
                call.answer.failure = failures.UNNAMED
    call.finish()


def _is_http_response(answer: Any) -> bool:
    """Return whether this is the response of httpx or httpx2 itself, which ``cast_to=httpx.Response`` asks for."""
    return type(answer).__name__ == "Response" and type(answer).__module__.partition(".")[0] in ("httpx", "httpx2")


def _body(http_response: Any) -> bytes | None:
    """Return the body of a response of httpx where it has been read; it is never read here."""
    # `content` raises where the body was streamed and not kept.
    body = vars(http_response).get("_content")
    return body if isinstance(body, bytes) else None


def _take_body(call: InferenceCall, answer: Any, *, is_whole: bool) -> None:
    """Keep what the program read of a raw response by other means than ``parse``, its usage for one."""
    http_response = vars(answer).get("http_response")
    body = None if http_response is None else _body(http_response)
    if body is not None or (http_response is not None and is_whole):
        call.record_body_read(body)


_stream_types: tuple[type, ...] = ()
_raw_types: tuple[type, ...] = ()


def add_types(streams: list[type], raw_responses: list[type]) -> None:
    """Add the classes of an imported library that are streams and raw responses."""
    global _stream_types, _raw_types
    _stream_types, _raw_types = (*_stream_types, *streams), (*_raw_types, *raw_responses)
