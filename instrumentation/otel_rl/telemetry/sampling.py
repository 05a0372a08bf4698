"""Marks traces for the collector's sampler to keep, with ``rl.sampling.priority``.

Step traces carry the priority from their start, through baggage. So do rollouts that the program forces, and rollouts
of a step that is kept whole. A slow operation is known only at its end: its span is marked then. Later in the same
trace and process, we mark each of our spans at its end and every span at its start.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlSamplingReasonValues
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.cardinality_budgets import within_budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

#: Value of ``rl.sampling.priority`` that asks to keep the trace.
KEEP = 1
#: An operation is slow when it took more than FACTOR times what QUANTILE of the latest REMEMBERED of its kind took.
REMEMBERED = 128
WARM_UP = 32
QUANTILE = 0.95
FACTOR = 1.5
#: Limit of traces that were marked to keep while they ran; a new one evicts the oldest.
MAXIMUM_TRACES = 1024
#: Why spans of rollouts are left out.
ROLLOUT_SPANS = "rollout_spans"
#: Takes an ended span instead of the queue that it is for, and returns True, where spans of its trace are held; set by
#: ``held_traces``, which few programs load.
hold: Callable[[ReadableSpan, Callable[[ReadableSpan], None]], bool] | None = None
#: Takes a span that has started, and the context of its parent; set by ``agents`` for libraries with own spans.
adopt: Callable[[Span, Context | None], None] | None = None


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
        insort(known, duration)
        self._latest.append(duration)
        return slow


# Re-entrant: a signal handler of the program may end an operation on a thread that is comparing.
_lock = threading.RLock()
#: True while the thread that holds the lock compares: what a signal handler ends on it meanwhile is not compared.
_comparing = False
_durations: dict[tuple[str, str], Durations] = {}
_traces: dict[int, None] = {}


def keep_if_slow(span: Span, duration: float, kind: str, name: str = "", attribute: str = "") -> None:
    """Mark the trace to keep if ``duration`` (s) is slow for operations of this ``kind`` and ``name``.

    Names that the program chooses have the budget of ``attribute``; what is beyond it is judged together.
    """
    # With a guard of its own: the caller has a span to end after this.
    with guard("sampling.slow"):
        if deferral.forks:
            return  # another thread may hold the lock, which the child would never get
        with _lock:
            slow = not _comparing and _is_slow(duration, kind, name, attribute)
        if slow:
            keep(span)


def _is_slow(duration: float, kind: str, name: str, attribute: str) -> bool:
    global _comparing
    _comparing = True
    try:
        durations = _durations.get((kind, name))
        if durations is None:
            # The budget is asked about a new name only.
            bounded = within_budget(attribute, name) if attribute else name
            durations = _durations.setdefault((kind, bounded), Durations())
        return durations.is_slow(duration)
    finally:
        _comparing = False


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
    """If this trace is already marked to keep, set the keep priority on this span too."""
    if _traces and span.get_span_context().trace_id in _traces:
        span.set_attribute(attributes.RL_SAMPLING_PRIORITY, KEEP)


def reason_to_keep_rollout(*, forced: bool, iteration: int | None) -> str | None:
    """Return the reason to keep a rollout unconditionally; None leaves the decision to the collector."""
    if forced:
        return RlSamplingReasonValues.FORCED
    interval = settings.current().whole_steps
    if interval and iteration is not None and iteration % interval == 0:
        return RlSamplingReasonValues.WHOLE_STEP
    return None


def _forget() -> None:
    global _lock, _comparing
    # The parent may have held the lock at the fork.
    _lock, _comparing = threading.RLock(), False
    _durations.clear()
    _traces.clear()


lifecycle.after_fork_in_child(_forget)
