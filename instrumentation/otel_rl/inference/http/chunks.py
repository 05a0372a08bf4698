"""The chunks of an answer on their way to the program; imports nothing of the pack.

They are no generators: one more that the program leaves open would have to be closed, and later than without us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator

    from otel_rl.inference.http.calls import HttpModelCall


class Chunks:
    """``chunks`` as they come, each of which ``call`` sees first."""

    __slots__ = ("_call", "_chunks")

    def __init__(self, call: HttpModelCall, chunks: Iterator[bytes]) -> None:
        self._call, self._chunks = call, chunks

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        call = self._call
        call.is_being_read = True
        try:
            chunk = next(self._chunks)
        except StopIteration:
            call.exhausted()
            raise
        except BaseException as error:
            call.broke_off(error)
            raise
        finally:
            call.is_being_read = False
        call.chunk(chunk)
        return chunk

    def throw(self, *error: Any) -> Any:
        """Hand on what ``yield from`` throws into a generator, for the program."""
        return self._chunks.throw(*error)  # type: ignore[attr-defined]  # used on generators only

    def close(self) -> None:
        """Likewise."""
        self._chunks.close()  # type: ignore[attr-defined]


class AsyncChunks:
    """The same of an asynchronous client."""

    __slots__ = ("_call", "_chunks")

    def __init__(self, call: HttpModelCall, chunks: AsyncIterator[bytes]) -> None:
        self._call, self._chunks = call, chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        call = self._call
        call.is_being_read = True
        try:
            awaited: Awaitable[bytes] = self._chunks.__anext__()
            chunk = await awaited
        except StopAsyncIteration:
            call.exhausted()
            raise
        except BaseException as error:
            call.broke_off(error)
            raise
        finally:
            call.is_being_read = False
        call.chunk(chunk)
        return chunk
