"""Following an answer that the program reads later: streams and raw responses, their types and laziness untouched."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlInferenceStreamEndedValues
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

    from otel_rl.instrumentors.openai.call import InferenceCall

#: Where a stream or raw response keeps the call it belongs to. Not on the call's side: a cycle would delay its release.
CALL = "_otel_rl_call"


def follow_stream(call: InferenceCall, stream: Any) -> None:
    """Watch ``stream``: only the iterator inside it is replaced, ``isinstance`` and its attributes stay as they are."""
    chunks = stream._iterator  # noqa: SLF001 - a private name, the same in all supported versions
    follow = _chunks_async if hasattr(chunks, "__anext__") else _chunks
    stream._iterator = follow(call, chunks)  # noqa: SLF001
    setattr(stream, CALL, call)
    call.watch_for_garbage(stream)


def follow_raw(call: InferenceCall, response: Any) -> None:
    """Watch a raw response: its call ends when it is parsed, closed or dropped, at the time its body was complete."""
    if getattr(response.http_response, "is_closed", False):
        call.body_was_read()
    setattr(response, CALL, call)
    call.watch_for_garbage(response)


def _chunks(call: InferenceCall, chunks: Iterator[Any]) -> Generator[Any, None, None]:
    try:
        for chunk in chunks:
            call.chunk(chunk)
            yield chunk
    except GeneratorExit:
        # Raised by the garbage collector, or by whoever closes the iterator without its stream.
        call.abandon()
        getattr(chunks, "close", _nothing)()
        raise
    except BaseException as error:
        call.finish(error)
        raise
    call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)


async def _chunks_async(call: InferenceCall, chunks: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    try:
        async for chunk in chunks:
            call.chunk(chunk)
            yield chunk
    except GeneratorExit:
        call.abandon()
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
        raise
    except BaseException as error:
        call.finish(error)
        raise
    call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)


def _nothing() -> None:
    """Stands for the ``close`` of an iterator that has none."""


def closes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for a synchronous ``close`` of a stream or raw response."""

    @functools.wraps(original)
    def close(self: Any) -> Any:
        ended = _ended(self)
        try:
            return original(self)
        finally:
            _finish(self, ended)

    return close


def closes_async(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for an asynchronous ``close`` of a stream or raw response."""

    @functools.wraps(original)
    async def close(self: Any) -> Any:
        ended = _ended(self)
        try:
            return await original(self)
        finally:
            _finish(self, ended)

    return close


def _ended(answer: Any) -> str:
    """Return COMPLETED when the raw response was read to its end before the close, else CLOSED."""
    complete = getattr(vars(answer).get("http_response"), "is_closed", False)
    return RlInferenceStreamEndedValues.COMPLETED if complete else RlInferenceStreamEndedValues.CLOSED


def _finish(answer: Any, ended: str) -> None:
    with guard("openai.close"):
        # The helpers' streams keep the one that was answered inside; another instrumentor may have put its own there.
        call = getattr(vars(answer).get("_raw_stream", answer), CALL, None)
        if call is not None:
            call.finish(ended=ended)


def parses(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for a synchronous ``parse`` of a raw response."""

    @functools.wraps(original)
    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = vars(self).get(CALL)
        if call is None:
            return original(self, *args, **kwargs)
        try:
            parsed = original(self, *args, **kwargs)
        except BaseException as error:
            call.finish(error)
            raise
        answered(call, parsed)
        return parsed

    return parse


def parses_async(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for an asynchronous ``parse`` of a raw response."""

    @functools.wraps(original)
    async def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = vars(self).get(CALL)
        if call is None:
            return await original(self, *args, **kwargs)
        try:
            parsed = await original(self, *args, **kwargs)
        except BaseException as error:
            call.finish(error)
            raise
        answered(call, parsed)
        return parsed

    return parse


def answered(call: InferenceCall, answer: Any) -> None:
    """Take what the program got: a stream or a raw response is followed, anything else ends the call."""
    with guard("openai.answer"):
        if isinstance(answer, _stream_types):
            if CALL not in vars(answer):
                follow_stream(call, answer)
            return
        if isinstance(answer, _raw_types):
            follow_raw(call, answer)
            return
        call.outcome.observe(answer)
    call.finish()


_stream_types: tuple[type, ...] = ()
_raw_types: tuple[type, ...] = ()


def use_types(streams: tuple[type, ...], raw_responses: tuple[type, ...]) -> None:
    """Tell which classes of the imported library are streams and raw responses."""
    global _stream_types, _raw_types
    _stream_types, _raw_types = streams, raw_responses
