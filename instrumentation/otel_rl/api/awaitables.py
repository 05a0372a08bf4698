"""What a decorated function returns to be awaited although it is no coroutine function.

A usual case is a function around a coroutine function, as most decorators make them: it returns the coroutine.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from otel_rl.api.user_messages import say_once
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable

#: Why the end of a call is not seen.
UNFOLLOWED = "unfollowed_awaitable"


def is_new_coroutine(value: object) -> bool:
    """True for a coroutine that has not begun: another one can stand for it.

    One that has begun is somebody else's too, and one of another kind may be known by its type.
    """
    return type(value) is CoroutineType and inspect.getcoroutinestate(value) == inspect.CORO_CREATED


def stand_in(original: Any, ours: Any, give_up: Callable[[], None]) -> weakref.ref[Any]:
    """Give ``ours`` the name of ``original``, which warnings and tasks show; return what ``ours`` has to hold.

    Python warns of a coroutine that nobody has awaited. Of the two only ``ours`` is such a one, and ``give_up`` is
    called for it.
    """
    ours.__name__, ours.__qualname__ = original.__name__, original.__qualname__

    def dropped(_: object, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing() and is_new_coroutine(original):
            original.close()
            give_up()

    return weakref.ref(ours, dropped)


def tell(value: object) -> None:
    """A function has returned an awaitable that is not followed: its call ends before the work does."""
    drops.count(Signal.TRACES, UNFOLLOWED)
    say_once(
        f"a decorated function returns a {type(value).__qualname__} to be awaited: its call is recorded until there"
        " only; decorate the coroutine function that does the work"
    )
