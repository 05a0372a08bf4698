"""Hooks of ``httpx``, and of ``httpx2``, which has the same classes.

The client reads an answer that is no stream before ``send`` returns.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.served_engines import senders
from otel_rl.served_engines.senders import Client

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from otel_rl.instrumentors.patching import Patches

#: Methods of a response that close it when the last chunk has been read.
_READERS = frozenset({"iter_raw", "aiter_raw"})
#: Frames of ours, and of the wrapper, between such a method and the hook.
_MOST_FRAMES = 4


def patch_client(library: str, module: ModuleType, patches: Patches) -> None:
    """Patch ``_client``."""
    client = Client(library, _head, _url)
    patches.observe(module, "BaseClient.build_request", after=_built, required=True)
    patches.replace(module, "Client.send", partial(senders.sends, client), required=True)
    patches.replace(module, "AsyncClient.send", partial(senders.sends_async, client), required=True)


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


def _parsed(value: Any, response: Any, **_: Any) -> None:
    senders.parsed(response, value)


def _closing(response: Any) -> None:
    error = _error_of_reader()
    complete = error is None and _is_called_by_reader()
    senders.closed(response, complete=complete, content=getattr(response, "_content", None), error=error)


def _error_of_reader() -> BaseException | None:
    """The exception that is on its way through a method that reads chunks; ``GeneratorExit`` where that is left."""
    error = sys.exc_info()[1]
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name in _READERS:
            return error
        traceback = traceback.tb_next
    # One of the program's own, around all of this.
    return None


def _is_called_by_reader() -> bool:
    """True where the method that reads chunks closes the response, which says so nowhere else (httpx 0.28)."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to see the callers
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name in _READERS:
            return True
        frame = frame.f_back
    return False
