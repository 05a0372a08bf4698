"""Hooks of ``httpx``, and of ``httpx2``, which has the same classes.

The client reads an answer that is no stream before ``send`` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference.http import senders
from otel_rl.inference.http.chunks import AsyncChunks, Chunks
from otel_rl.inference.http.senders import Client
from otel_rl.telemetry import propagation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_client(library: str, module: ModuleType, patches: Patches) -> None:
    """Patch ``_client``."""
    client = Client(library, _head, _url, follow_chunks)
    patches.observe(module, "BaseClient.build_request", after=_built, required=True)
    patches.observe(module, "BaseClient._build_redirect_request", after=_redirected)
    senders.observe(patches, module, "Client.send", client)
    senders.observe(patches, module, "AsyncClient.send", client, is_awaited=True)


def patch_models(module: ModuleType, patches: Patches) -> None:
    """Patch ``_models``."""
    patches.observe(module, "Response.json", after=_parsed, required=True)
    patches.observe(module, "Response.close", before=_closing, required=True)
    patches.observe(module, "Response.aclose", before=_closing, required=True)


def _head(request: Any) -> tuple[str, str]:
    return request.method, request.url.path


def _url(request: Any) -> tuple[str, str, int | None, str]:
    url = request.url
    return url.scheme, url.host, url.port, url.path


def _built(request: Any, _client: Any, _method: Any = None, _url: Any = None, **given: Any) -> None:
    senders.keep_body(request, given.get("json"), _head(request))


def _redirected(request: Any, *_: Any) -> None:
    propagation.withhold(request.headers, request.url)


def _parsed(value: Any, response: Any, **_: Any) -> None:
    senders.parsed(response, value)


def _closing(response: Any) -> None:
    # One that has been read to its end has said so before.
    content = getattr(response, "_content", None)
    senders.closed(response, complete=content is not None, content=content)


# -- chunks --------------------------------------------------------------------------------------------------------


def follow_chunks(response: Any, call: Any) -> None:
    """See the chunks below ``response.stream``, which stays the object that it is (``BoundSyncStream``, httpx 0.28)."""
    stream = _bound(response)
    inside = getattr(stream, "_stream", None)
    if inside is not None and call.is_followed_by(response, response):
        # A transport may have answered with this object before.
        stream._stream = _Stream(call, inside.stream if isinstance(inside, _Stream) else inside)  # noqa: SLF001


def leave_chunks(response: Any, call: Any) -> None:
    """Put the stream back that ``call`` sees the chunks of, unless they are being read."""
    stream = _bound(response)
    inside = getattr(stream, "_stream", None)
    if isinstance(inside, _Stream) and inside.call is call:
        stream._stream = inside.stream  # noqa: SLF001


def _bound(response: Any) -> Any:
    """Return the client's own stream, also inside of those by which ``anthropic`` ends its span (2.12)."""
    stream = response.stream
    return getattr(stream, "_body", None) or getattr(stream, "_async_body", stream)


class _Stream:
    """Stands for the stream of a transport."""

    __slots__ = ("aclose", "call", "close", "stream")

    def __init__(self, call: Any, stream: Any) -> None:
        self.call = call
        self.stream = stream
        for name in ("close", "aclose"):
            if hasattr(stream, name):
                setattr(self, name, getattr(stream, name))

    def __iter__(self) -> Iterator[bytes]:
        return Chunks(self.call, iter(self.stream))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return AsyncChunks(self.call, self.stream.__aiter__())
