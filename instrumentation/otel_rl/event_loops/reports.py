"""Reports of event loops: an event for each block, how long blocks were, and the lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry._logs import SeverityNumber

from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events, metrics
from otel_rl.telemetry import deferral, redaction
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.event_loops.blocks import EventLoopBlock

_scope = Scope("process")
#: Most events at once: the burst of a token bucket.
_BURST = 60
#: Seconds until one more event may be emitted.
_SECONDS_PER_EVENT = 10.0
#: Seconds between two recordings of the lag.
_LAG_INTERVAL = 1.0


class Reports:
    """Of one process; for the watchdog's thread."""

    def __init__(self, now: float) -> None:
        #: Seconds, one for each look.
        self.lags: list[float] = []
        self._numbers = 0
        self._total = 0.0
        self._tokens = float(_BURST)
        self._refilled = self._recorded = self._now = now

    def turn(self, now: float, *, last: bool = False) -> None:
        """Record the lag, at the end of a turn of the thread."""
        self._now = now
        if self.lags and (last or now - self._recorded >= _LAG_INTERVAL):
            lags, self.lags, self._recorded = self.lags, [], now
            _scope.record_all(metrics.RL_EVENT_LOOP_LAG, lags)
            deferral.hand_over()

    def blocked(self, block: EventLoopBlock, number: int = 0, *, ongoing: bool = False) -> int:
        """Report a block; return its number. ``number`` is that of a block which was reported as an ongoing one."""
        if not number:
            self._numbers += 1
        if not ongoing:
            self._total += block.seconds
            labels = {attributes.RL_EVENT_LOOP_BLOCKED_STATE: block.state}
            _scope.record(metrics.RL_EVENT_LOOP_BLOCKED_DURATION, block.seconds, labels)
        if self._may_emit():
            total = self._total + (block.seconds if ongoing else 0.0)
            _emit(block, number or self._numbers, total, ongoing=ongoing)
        deferral.hand_over()
        return number or self._numbers

    def _may_emit(self) -> bool:
        self._tokens = min(self._tokens + (self._now - self._refilled) / _SECONDS_PER_EVENT, _BURST)
        self._refilled = self._now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _emit(block: EventLoopBlock, number: int, total: float, *, ongoing: bool) -> None:
    step = steps.where().step
    place = block.place
    _scope.event(
        events.RL_EVENT_LOOP_BLOCKED,
        body=redaction.text(f"{_words(block, ongoing=ongoing)}\n{block.stack}", "logs"),
        severity=SeverityNumber.WARN,
        context=step.context if step is not None else None,
        attributes={
            attributes.RL_EVENT_LOOP_BLOCKED_DURATION: block.seconds,
            attributes.RL_EVENT_LOOP_BLOCKED_NUMBER: number,
            attributes.RL_EVENT_LOOP_BLOCKED_TOTAL: total,
            attributes.RL_EVENT_LOOP_BLOCKED_STATE: block.state,
            attributes.RL_EVENT_LOOP_BLOCKED_ONGOING: ongoing or None,
            attributes.CODE_FUNCTION_NAME: place.function if place else None,
            attributes.CODE_FILE_PATH: redaction.text(place.file, "logs") if place else None,
            attributes.CODE_LINE_NUMBER: place.line if place else None,
            # The program may name its tasks as it likes.
            attributes.RL_EVENT_LOOP_TASK: redaction.text(block.task, "logs") if block.task else None,
            attributes.RL_EVENT_LOOP_COROUTINE: block.coroutine,
            attributes.RL_EVENT_LOOP_ROLLOUTS: block.rollouts,
            attributes.RL_EVENT_LOOP_MODEL_CALLS: block.model_calls,
            attributes.RL_RANK: process_identity.current().rank,
            attributes.RL_LOOP_ITERATION: step.iteration if step is not None else None,
        },
    )


def _words(block: EventLoopBlock, *, ongoing: bool) -> str:
    tense = "has been" if ongoing else "was"
    where = f" by {block.place.function} in line {block.place.line} of {block.place.file}" if block.place else ""
    return f"the event loop {tense} blocked for {block.seconds:.2f} s{where}, which {block.state}"
