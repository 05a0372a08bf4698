"""Measurements of calls that wait for each other.

Calls of one server and model have the same attributes, for which the SDK takes as long as for the value. So what was
measured of a few calls is recorded together.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from otel_rl.core.guard import guard
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otel_rl.telemetry.scope import Scope


class PendingCall(Protocol):
    """What was measured of one call."""

    @property
    def scope(self) -> Scope:
        """Whose metrics they are."""

    @property
    def labels(self) -> dict[str, Any]:
        """Attributes of all its metrics."""

    @property
    def error_type(self) -> str | None:
        """Where the call failed."""


#: Measurements wait for this many calls, at most until metrics are collected.
BATCH = 32
OneCall = TypeVar("OneCall", bound=PendingCall)


class PendingMeasurements(Generic[OneCall]):
    """Measurements of one kind of calls; ``record`` is given those with the same attributes, at least one.

    With ``posted`` an I/O thread records a full batch, else the thread that fills it.
    """

    __slots__ = ("_guard", "_posted", "_queue", "_record")

    def __init__(self, site: str, record: Callable[[list[OneCall]], None], *, posted: bool = False) -> None:
        self._guard = guard(site)
        self._record = record
        self._posted = posted
        self._queue: deque[OneCall] = deque()
        lifecycle.before_shutdown(self.record)
        # The parent records its own; a child must not record them again.
        lifecycle.after_fork_in_child(self._queue.clear)

    def add(self, measured: OneCall) -> None:
        """Keep what was measured until there are a few calls, or until metrics are collected."""
        queue = self._queue
        if not queue:
            measured.scope.observe(metrics.RL_TELEMETRY_ERRORS, self._before_collection)
        queue.append(measured)
        if len(queue) >= BATCH:
            if self._posted:
                deferral.post(Signal.METRICS, self.record)
            else:
                self.record()

    def record(self) -> None:
        """Record what waits, calls with the same attributes together."""
        groups: dict[Any, list[OneCall]] = {}
        while not deferral.must_wait():
            try:
                measured = self._queue.popleft()
            except IndexError:  # another thread may have taken the last one: asking first would not do
                break
            key = measured.scope, measured.error_type, tuple(measured.labels.items())
            groups.setdefault(key, []).append(measured)
        for group in groups.values():
            with self._guard:
                self._record(group)

    def _before_collection(self) -> Iterable[tuple[float, dict[str, Any]]]:
        """Record what is pending: readers call observable instruments first, and this one observes nothing."""
        with deferral.in_callback_of_sdk():
            self.record()
        return ()
