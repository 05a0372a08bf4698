"""What a decorated function returns to be awaited although it is no coroutine function.

A usual case is a function around a coroutine function, as most decorators make them: it returns the coroutine. Its call
ends there. The coroutine is the program's, which may keep it, hand it on or await it elsewhere: it stays as it is.
"""

from __future__ import annotations

from otel_rl.api.user_messages import say_once
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops

#: Why the end of a call is not seen.
UNFOLLOWED = "unfollowed_awaitable"


def is_awaitable(value: object) -> bool:
    """Return whether the class of ``value`` says so; no code of the program is run, unless of its metaclass."""
    return any("__await__" in vars(base) for base in type(value).__mro__)


def report_awaitable(value: object) -> None:
    """Report that a function has returned an awaitable: its call ends before the work does."""
    drops.count(Signal.TRACES, UNFOLLOWED)
    say_once(
        UNFOLLOWED,
        f"a decorated function returns a {type(value).__qualname__} to be awaited: its call is recorded until there"
        " only; decorate the coroutine function that does the work",
    )
