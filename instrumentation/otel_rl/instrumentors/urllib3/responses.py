"""How ``urllib3`` reads answers, its own and those of ``requests``; what is for others costs one look-up."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.inference.http import senders
from otel_rl.inference.http.chunks import Chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import ModuleType

    from otel_rl.inference.http.calls import HttpModelCall
    from otel_rl.instrumentors.patching import Patches

_READ = guard("urllib3.read")


def patch_response(module: ModuleType, patches: Patches) -> None:
    """Patch ``urllib3.response``: the three methods through which all others read."""
    patches.replace(module, "HTTPResponse.read", functools.partial(_reads, takes_all=True), required=True)
    patches.replace(module, "HTTPResponse.read_chunked", _reads_chunked, required=True)
    # Since 2.0.
    patches.replace(module, "HTTPResponse.read1", functools.partial(_reads, takes_all=False))
    patches.observe(module, "BaseHTTPResponse.json", after=_parsed)
    patches.observe(module, "HTTPResponse.close", before=_closing, required=True)


def _parsed(value: Any, response: Any) -> None:
    senders.parsed(response, value)


def _closing(response: Any) -> None:
    call = senders.call_of(response)
    # A method that reads closes it before it raises. `io.IOBase` says so where the garbage collector closes it: nothing
    # may be recorded there.
    if call is not None and not call.is_being_read and not getattr(response, "_finalizing", False):
        senders.closed(response, complete=False, content=None)


def _reads(original: Callable[..., Any], *, takes_all: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = senders.call_of(self)
        if call is None:
            return original(self, *args, **kwargs)
        call.is_being_read = True
        try:
            data = original(self, *args, **kwargs)
        except BaseException as error:
            call.broke_off(error)
            raise
        finally:
            call.is_being_read = False
        with _READ:
            amount = args[0] if args else kwargs.get("amt")
            _was_read(call, self, amount, data, takes_all=takes_all)
        return data

    return read


def _was_read(call: HttpModelCall, response: Any, amount: int | None, data: bytes | None, *, takes_all: bool) -> None:
    if data:
        call.chunk(data)
    if amount == 0:
        return
    # `read1` gives one piece where no amount is asked for.
    is_all = takes_all and (amount is None or amount < 0)
    # It closes itself with the last byte that the server has announced.
    if not data or is_all or (response.isclosed() and not _has_decoded(response)):
        call.exhausted()


def _has_decoded(response: Any) -> bool:
    """Return whether decompression has given more than was asked for (since 2.0), or has not gone on yet."""
    decoder = getattr(response, "_decoder", None)
    return bool(getattr(response, "_decoded_buffer", None) or getattr(decoder, "has_unconsumed_tail", False))


def _reads_chunked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read_chunked(self: Any, *args: Any, **kwargs: Any) -> Generator[bytes, None, Any]:
        call = senders.call_of(self)
        chunks = original(self, *args, **kwargs)
        return (yield from chunks if call is None else Chunks(call, chunks))

    return read_chunked
