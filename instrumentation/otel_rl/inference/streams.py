"""Iterators that follow the chunks of a stream for its call, and leave its laziness alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlInferenceStreamEndedValues

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

    from otel_rl.inference.calls import InferenceCall


def follow(call: InferenceCall, chunks: Iterator[Any]) -> Generator[Any, None, None]:
    """Every chunk of ``chunks``, as ``call`` sees it; it ends with the stream."""
    call.is_being_read = True
    try:
        for chunk in chunks:
            call.chunk(chunk)
            call.is_being_read = False
            yield chunk
            call.is_being_read = True
    except GeneratorExit:
        # Raised by the garbage collector, or by whoever closes the iterator without its stream.
        call.abandon()
        getattr(chunks, "close", _nothing)()
        raise
    except BaseException as error:
        call.finish(error)
        raise
    call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)


async def follow_async(call: InferenceCall, chunks: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Like :func:`follow`, for an asynchronous stream, which is not closed here.

    The event loop closes each asynchronous generator that is dropped in a task of its own: ours would meet the task of
    the one inside, and one of them raise "asynchronous generator is already running".
    """
    call.is_being_read = True
    try:
        async for chunk in chunks:
            call.chunk(chunk)
            call.is_being_read = False
            yield chunk
            call.is_being_read = True
    except GeneratorExit:
        call.abandon()
        raise
    except BaseException as error:
        call.finish(error)
        raise
    call.finish(ended=RlInferenceStreamEndedValues.COMPLETED)


def followed(call: InferenceCall, chunks: Any) -> Any:
    """Follow ``chunks`` of either kind, also if the program drops them before the first one."""
    stream = (follow_async if hasattr(chunks, "__anext__") else follow)(call, chunks)
    call.watch_for_garbage(stream)
    return stream


def _nothing() -> None:
    """Stands for the ``close`` of an iterator that has none."""
