"""Spans of rollouts beyond the number that a step may send wait here until their rollout's worth is known.

The first rollouts of a step are never held; outside of steps the first ones of the process, and then so many a minute,
spread over it. A further one is sent where it failed, is suspect, asked to be kept, or is among the :data:`SLOWEST`;
the spans of any other are left out, all of them, and counted (``rollout_spans``). Its row has everything.

Loaded with the first rollout of a process: ``sampling.hold`` is how the queues of spans find it. What is held leaves
with a flush and at the exit. The hold is bounded: when it is full, the least worth leaves it, and is counted too.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle, sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

    Emit = Callable[[ReadableSpan], None]

#: Rollouts of a window that are sent because no other one of those held took longer.
SLOWEST = 8
#: Bytes of the spans that are held, by estimate: what a span takes without its texts, and its texts.
MAXIMUM_BYTES, SPAN_BYTES = 32 << 20, 2048
#: Rollouts that are open, or wait for the end of their window.
MAXIMUM_TRACES = 16_384
#: Left out ones whose late spans are known to belong to them.
MAXIMUM_LEFT_OUT = 16_384
#: Windows that are open at once, and after how many seconds one without a step of this process is over.
MAXIMUM_WINDOWS, WINDOW_SECONDS = 8, 60.0

_order = count()


class RolloutAllowance:
    """Rollouts outside of steps that are sent in any case: at first so many at once, then so many a minute.

    They are spread over the minute: of the first ones of each minute nobody could tell whether its end was slower.
    """

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._at: float | None = None
        self._left = 0.0

    def takes(self, limit: int) -> bool:
        """Return whether one that begins now is among them."""
        now = time.monotonic()
        earned = limit if self._at is None else (now - self._at) * limit / WINDOW_SECONDS
        self._left, self._at = min(self._left + earned, limit), now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def forget(self) -> None:
        """Begin anew."""
        self._at, self._left = None, 0.0


class RolloutWindow:
    """A step, or a minute outside of steps: of its rollouts so many are sent."""

    __slots__ = ("begun", "ends_with_step", "held", "late", "since", "slowest")

    def __init__(self, *, ends_with_step: bool) -> None:
        self.since = time.monotonic()
        self.ends_with_step = ends_with_step
        self.begun = 0
        #: Ended ones that may turn out to be suspect.
        self.held: list[HeldTrace] = []
        #: A heap of the slowest of the others, the shortest of them first; those of the end stay without their spans.
        self.slowest: list[tuple[float, int, HeldTrace | None]] = []
        #: None while it is open; then how many of the slowest have ended after it.
        self.late: int | None = None


class HeldTrace:
    """The ended spans of one rollout, and what its worth depends on."""

    __slots__ = ("bytes", "is_suspect", "number", "seconds", "spans", "trace_id", "window")

    def __init__(self, trace_id: int, window: RolloutWindow) -> None:
        self.trace_id = trace_id
        self.window = window
        self.number = next(_order)
        self.spans: list[tuple[Emit, ReadableSpan]] = []
        self.bytes = 0
        #: None while the rollout is open.
        self.seconds: float | None = None
        #: Tells at the end of the window whether its reward is suspect; None where it cannot be.
        self.is_suspect: Callable[[], bool] | None = None


# Re-entrant: a signal handler of the program may end a span on a thread that adds one.
_lock = threading.RLock()
_windows: OrderedDict[Hashable, RolloutWindow] = OrderedDict()
_held: dict[int, HeldTrace] = {}
_left_out: dict[int, None] = {}
_bytes = 0
outside_of_steps = RolloutAllowance()


def begin(
    span: Span, key: Hashable, *, ends_with_step: bool, allowance: RolloutAllowance | None = None
) -> HeldTrace | None:
    """Count a rollout of window ``key``; hold the spans of its trace where enough others of it are sent.

    Enough are the first ones of the window, or what ``allowance`` says.

    Only of a root: a trace that something else has begun is not the rollout's alone.
    """
    own = span.get_span_context()
    if getattr(span, "parent", None) is not None or not (own.is_valid and own.trace_flags.sampled):
        return None
    if deferral.forks or lifecycle.is_ending:
        return None
    sent: list[HeldTrace] = []
    with _lock:
        window = _windows.get(key)
        if window is None:
            window = _windows[key] = RolloutWindow(ends_with_step=ends_with_step)
            while len(_windows) > MAXIMUM_WINDOWS:
                sent += _close(next(iter(_windows)))
        window.begun += 1
        held, limit = None, settings.current().rollout_spans
        if not (window.begun <= limit if allowance is None else allowance.takes(limit)):
            held = _held[own.trace_id] = HeldTrace(own.trace_id, window)
            if len(_held) > MAXIMUM_TRACES:
                # One that never ends, perhaps: nothing is known against it.
                sent.append(_take(next(iter(_held.values()))))
    if held is not None:
        lifecycle.before_shutdown(release_all)
        sampling.hold = _hold
    _send(sent)
    return held


def end(held: HeldTrace, seconds: float, *, is_kept: bool, is_suspect: Callable[[], bool] | None) -> None:
    """Decide on a rollout that has ended; one that may be suspect, or the slowest, waits for the end of its window."""
    if deferral.forks:
        return
    sent: list[HeldTrace] = []
    with _lock:
        if _held.get(held.trace_id) is not held:
            return  # a flush has sent it
        held.seconds, held.is_suspect = seconds, is_suspect
        window = held.window
        if is_kept:
            sent.append(_take(held))
        elif is_suspect is None:
            _compare(held, sent)
        elif window.late is not None:
            _judge(held, sent)
        else:
            window.held.append(held)
    _send(sent)


def has(trace_id: int) -> bool:
    """Return whether the spans of this trace are held, or left out."""
    return trace_id in _held or trace_id in _left_out


def close(key: Hashable) -> None:
    """Send the slowest and the suspect ones of a window that is over."""
    with _lock:
        sent = _close(key) if key in _windows else []
    _send(sent)


def close_due() -> None:
    """Close the windows outside of steps that are over."""
    due = time.monotonic() - WINDOW_SECONDS
    for key, window in list(_windows.items()):
        if not window.ends_with_step and window.since < due:
            close(key)


def release_all() -> None:
    """Send all that is held, what is worth most first: the process may end before its rollouts do."""
    with _lock:
        waiting = sorted(_held.values(), key=_worth, reverse=True)
        sent = [_take(held) for held in waiting]
        for window in _windows.values():
            window.held.clear()
            window.slowest = [(seconds, number, None) for seconds, number, _ in window.slowest]
    _send(sent)


def _worth(held: HeldTrace) -> tuple[int, float]:
    """Return what the hold gives up last: what may be suspect, then what began first of the open ones."""
    if held.seconds is None:
        return 1, -held.number
    return (0 if held.is_suspect is None else 2), held.seconds


def _hold(span: ReadableSpan, emit: Emit) -> bool:
    """Take an ended span of a rollout that is held or left out; False for any other."""
    global _bytes
    trace_id = span.context.trace_id if span.context is not None else 0
    if deferral.forks or not has(trace_id):
        return False
    size = SPAN_BYTES + sum(len(value) for value in (span.attributes or {}).values() if type(value) is str)
    with _lock:
        held = _held.get(trace_id)
        if held is None:
            if trace_id not in _left_out:
                return False
            drops.count(Signal.TRACES, sampling.ROLLOUT_SPANS)
            return True
        held.spans.append((emit, span))
        held.bytes += size
        _bytes += size
        if _bytes > MAXIMUM_BYTES:
            _make_room()
    return True


def _make_room() -> None:
    """Let go of a quarter of what is held, the least worth first. An open rollout goes on being held without it."""
    for held in sorted(_held.values(), key=_worth):
        if _bytes <= MAXIMUM_BYTES * 3 // 4:
            return
        if held.seconds is None:
            _count_left_out(held)
        else:
            _leave_out(held)


def _compare(held: HeldTrace, sent: list[HeldTrace]) -> None:
    """Hold it on as one of the slowest of its window, in place of the shortest of them, or leave it out."""
    window, seconds = held.window, held.seconds or 0.0
    if len(window.slowest) >= SLOWEST:
        if seconds <= window.slowest[0][0]:
            _leave_out(held)
            return
        _, _, shortest = heapq.heappop(window.slowest)
        if shortest is not None:
            _leave_out(shortest)
    if window.late is None:
        heapq.heappush(window.slowest, (seconds, held.number, held))
        return
    # It outlasted its step: compared with those that are sent already, and with a bound of its own.
    heapq.heappush(window.slowest, (seconds, held.number, None))
    window.late += 1
    if window.late <= SLOWEST:
        sent.append(_take(held))
    else:
        _leave_out(held)


def _judge(held: HeldTrace, sent: list[HeldTrace]) -> None:
    if held.is_suspect is not None and held.is_suspect():
        sent.append(_take(held))
    else:
        held.is_suspect = None
        _compare(held, sent)


def _close(key: Hashable) -> list[HeldTrace]:
    window = _windows.pop(key)
    sent: list[HeldTrace] = []
    for held in window.held:
        if held.trace_id in _held:
            _judge(held, sent)
    window.held.clear()
    window.late = 0
    in_order = sorted(window.slowest, key=lambda ended: ended[1])
    sent += [_take(held) for _, _, held in in_order if held is not None and held.trace_id in _held]
    window.slowest = [(seconds, number, None) for seconds, number, _ in window.slowest]
    heapq.heapify(window.slowest)
    return sent


def _take(held: HeldTrace) -> HeldTrace:
    global _bytes
    _held.pop(held.trace_id, None)
    _bytes -= held.bytes
    held.bytes = 0
    return held


def _leave_out(held: HeldTrace) -> None:
    if _held.get(held.trace_id) is not held:
        return
    _count_left_out(held)
    _take(held)
    _left_out[held.trace_id] = None
    if len(_left_out) > MAXIMUM_LEFT_OUT:
        _left_out.pop(next(iter(_left_out)), None)


def _count_left_out(held: HeldTrace) -> None:
    global _bytes
    drops.count(Signal.TRACES, sampling.ROLLOUT_SPANS, len(held.spans))
    held.spans.clear()
    _bytes -= held.bytes
    held.bytes = 0


def _send(traces: Iterable[HeldTrace]) -> None:
    """Hand over what was taken, outside of the lock: a queue may start its thread."""
    for held in traces:
        spans, held.spans = held.spans, []
        for emit, span in spans:
            emit(span)


def _release_soon() -> None:
    if _held:
        deferral.post(Signal.TRACES, release_all)


def _close_due_soon() -> None:
    if _held and any(not window.ends_with_step for window in _windows.values()):
        deferral.post(Signal.TRACES, close_due)


def forget() -> None:
    """Forget what is held: in a forked child it is the parent's."""
    global _lock, _bytes
    # The parent may have held the lock at the fork.
    _lock, _bytes = threading.RLock(), 0
    _windows.clear()
    _held.clear()
    _left_out.clear()
    outside_of_steps.forget()


lifecycle.before_flush(_release_soon)
lifecycle.at_intervals(_close_due_soon)
lifecycle.after_fork_in_child(forget)
