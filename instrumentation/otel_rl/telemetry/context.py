"""Attaches and detaches OpenTelemetry contexts without ever writing to the program's log."""

from __future__ import annotations

import sys
from _thread import get_ident
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Token

    from opentelemetry.context import Context


#: Returns the current context. The public function only calls this one; on the trainer's thread that shows.
get_current: Callable[[], Context] = otel_context._RUNTIME_CONTEXT.get_current  # noqa: SLF001
#: The thread in which a garbage collection closes a generator just now, see :func:`unchanged`; 0 for none.
_collecting = 0
#: Stands for the token of a change that was not made.
_NO_TOKEN: Any = object()


def may_change() -> bool:
    """Return whether context variables may be set, see :func:`unchanged`."""
    return not _collecting or _collecting != get_ident()


@contextmanager
def unchanged() -> Iterator[None]:
    """Nothing of ours sets a context variable in this thread inside of the block. For Python before 3.12.

    There a garbage collection may have interrupted ``ContextVar.set``, which crashes when the variables change
    meanwhile (https://github.com/python/cpython/issues/148891). Only one collection runs at a time.
    """
    global _collecting
    before, _collecting = _collecting, get_ident()
    try:
        yield
    finally:
        _collecting = before


if sys.version_info >= (3, 12):
    #: Makes a context current; give the token to :func:`detach`.
    attach: Callable[[Context], Token[Context]] = otel_context.attach
else:

    def attach(context: Context) -> Token[Context]:
        """Make a context current; give the token to :func:`detach`."""
        if _collecting and not may_change():
            return _NO_TOKEN  # type: ignore[no-any-return]
        return otel_context.attach(context)


def detach(token: Token[Context] | None) -> bool:
    """Restore the previous context; without a token there is nothing to do.

    Returns False then, when the token belongs to another thread or task (a generator finished elsewhere, say), and
    where no context may change. The API's own ``detach`` logs a traceback for these, which would be our noise in the
    program's output.
    """
    if token is None or token is _NO_TOKEN or (_collecting and not may_change()):
        return False
    try:
        otel_context._RUNTIME_CONTEXT.detach(token)  # noqa: SLF001 - the public function logs instead of raising
    except (ValueError, RuntimeError):
        return False
    return True
