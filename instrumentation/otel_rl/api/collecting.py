"""Whether the garbage collector runs on this thread. For Python before 3.12.

There a collection begins in the middle of whatever allocates, ``ContextVar.set`` too. A finaliser that sets a context
variable meanwhile frees what this call works on, and the process crashes
(https://github.com/python/cpython/issues/148891).
From 3.12 on (gh-97922) a collection waits for the end of the bytecode.

A callback in Python would let other threads run in the middle of such an operation
(:mod:`otel_rl.runtime_metrics.garbage`).
So the callbacks are methods of built-in types. Each gets the phase, ``start`` or ``stop``, and a new dictionary.
"""

from __future__ import annotations

import gc
import sys
import threading
from functools import partial
from typing import Any

#: True where a collection may interrupt a call. gevent puts a ``local`` in Python in the place of the built-in one.
INTERRUPTS = sys.version_info < (3, 12) and threading.local.__module__ == "_thread"
#: What the callbacks got last for each phase; the latest phase is the last one.
_phases: dict[str, Any] = {}
#: The same of the collections that this thread has run.
_here = threading.local()
#: CPython skips the one behind a callback that removes itself: the first one does nothing.
_CALLBACKS: tuple[Any, ...] = ({}.get, _phases.pop, _phases.__setitem__, partial(setattr, _here))
_is_watched = False


def watch() -> None:
    """Follow all collections from now on; costs a microsecond for each."""
    global _is_watched
    if INTERRUPTS and not _is_watched:
        _is_watched = True
        gc.callbacks.extend(_CALLBACKS)


def runs_here() -> bool:
    """Return whether this thread runs a collection, from the first :func:`watch` on."""
    try:
        return next(reversed(_phases)) == "start" and _here.start is _phases["start"]
    except (StopIteration, RuntimeError, KeyError, AttributeError):
        # None yet, or another thread collects just now.
        return False
