"""Calls whose answers the program has dropped: the garbage collector notes them, and the next call records them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from otel_rl.core.guard import guard
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from otel_rl.telemetry.model_turns import OpenModelCall

#: Appended to inside the garbage collector, where no lock may be taken.
dropped: deque[OpenModelCall] = deque()


def record_abandoned() -> None:
    """End the calls whose answers have been garbage collected meanwhile."""
    while dropped:
        try:
            call = dropped.popleft()
        except IndexError:  # another thread took the last one
            return
        with guard("inference.abandoned"):
            call.end_if_dropped()


lifecycle.before_shutdown(record_abandoned)
# The parent records its own.
lifecycle.after_fork_in_child(dropped.clear)
