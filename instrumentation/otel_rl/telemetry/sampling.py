"""What only the run knows about which traces are worth keeping, said to the collector as ``rl.sampling.priority``.

Spans of step traces carry it from their start, through baggage, as do those of rollouts that the program forces or that
belong to a step of which everything is kept. That an operation was slow is known at its end: then the span itself says
so, and every span of ours in this process that ends, or of anybody that starts, later in the same trace.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING

from otel_rl import settings
from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlSamplingReasonValues
from otel_rl.telemetry import deferral, lifecycle

if TYPE_CHECKING:
    from opentelemetry.trace import Span

#: Value of ``rl.sampling.priority`` that asks to keep the trace.
KEEP = 1
#: An operation is slow when it took more than FACTOR times what QUANTILE of the latest REMEMBERED of its kind took.
REMEMBERED = 128
WARM_UP = 32
QUANTILE = 0.95
FACTOR = 1.5
#: Traces that were found worth keeping while they ran; the oldest is forgotten when another one comes.
MAXIMUM_TRACES = 1024


class Durations:
    """The latest durations of one kind of operation, in s, in their order and sorted."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def is_slow(self, duration: float) -> bool:
        """Compare with those before it, then remember it."""
        known = self._sorted
        slow = len(known) >= WARM_UP and duration > FACTOR * known[int(QUANTILE * len(known))]
        while len(known) >= REMEMBERED and self._latest:
            del known[bisect_left(known, self._latest.popleft())]
        # In this order: a signal handler in between takes a duration that is in both.
        insort(known, duration)
        self._latest.append(duration)
        return slow


# Re-entrant: a signal handler of the program may end an operation on a thread that is comparing.
_lock = threading.RLock()
_durations: dict[tuple[str, str], Durations] = {}
_traces: dict[int, None] = {}


def keep_if_slow(span: Span, duration: float, kind: str, name: str = "") -> None:
    """Tell at the end of an operation how long it took, in s; ``kind`` and ``name`` (bounded) say what it is like."""
    # With a guard of its own: the caller has a span to end after this.
    with guard("sampling.slow"):
        if deferral.forks:
            return  # another thread may hold the lock, which the child would never get
        with _lock:
            durations = _durations.get((kind, name))
            if durations is None:
                durations = _durations[kind, name] = Durations()
            slow = durations.is_slow(duration)
        if slow:
            keep(span)


def keep(span: Span) -> None:
    """Mark ``span`` as slow, and its trace as one to keep."""
    if not span.is_recording():
        return
    span.set_attribute(attributes.RL_SAMPLING_PRIORITY, KEEP)
    span.set_attribute(attributes.RL_SAMPLING_REASON, RlSamplingReasonValues.SLOW)
    with _lock:
        if len(_traces) >= MAXIMUM_TRACES:
            _traces.pop(next(iter(_traces)), None)
        _traces[span.get_span_context().trace_id] = None


def pass_on(span: Span) -> None:
    """Give a span that starts or ends now the wish that was learnt about its trace meanwhile."""
    if _traces and span.get_span_context().trace_id in _traces:
        span.set_attribute(attributes.RL_SAMPLING_PRIORITY, KEEP)


def reason_to_keep_rollout(*, forced: bool, iteration: int | None) -> str | None:
    """Why a rollout is kept whatever happens in it; None when that is for the collector to decide."""
    if forced:
        return RlSamplingReasonValues.FORCED
    interval = settings.current().whole_steps
    if interval and iteration is not None and iteration % interval == 0:
        return RlSamplingReasonValues.WHOLE_STEP
    return None


def _forget() -> None:
    global _lock
    # The parent may have held the lock at the fork.
    _lock = threading.RLock()
    _durations.clear()
    _traces.clear()


lifecycle.after_fork_in_child(_forget)
