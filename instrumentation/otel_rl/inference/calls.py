"""Model calls: one span and one set of metrics per call, whoever else is watching.

The counterpart of :mod:`otel_rl.tools.calls`, and the hottest path of a rollout: one guard, no attribute cleaned
twice, and the metrics of a few calls recorded together (a histogram costs half as much when the code is still warm).
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.trace import SpanKind

from otel_rl.inference import ownership
from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues
from otel_rl.telemetry import cardinality_budgets, deferral, lifecycle
from otel_rl.telemetry.attribute_values import clean, error_type
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.histograms import NO_SPAN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.telemetry.scope import Scope

    #: Duration, labels, input tokens, output tokens, time to first chunk, error.type, context.
    _Measured = tuple[float, dict[str, Any], int | None, int | None, float | None, str | None, Context]

#: Measurements wait for this many calls, at most until metrics are collected.
_BATCH = 32
_pending: deque[tuple[Scope, _Measured]] = deque()


class Inference:
    """A call to a model from its request to the end of its answer; ``owned`` where the span is ours.

    ``labels`` become the attributes of the metrics; ``values`` are further attributes of the span's start. Errors of
    ours are for the caller to guard.
    """

    __slots__ = ("_attached", "_context", "_scope", "labels", "owned", "span", "started")

    def __init__(self, scope: Scope, name: str, labels: dict[str, Any], values: Mapping[str, Any]) -> None:
        self._scope = scope
        self._attached: Token[Context] | None = None
        self._context: Context | None = None
        self.labels = labels
        #: Start of the call, ``time.perf_counter()`` in s.
        self.started = time.perf_counter()
        owner = ownership.inference_span(scope.name)
        self.owned = owner is None
        if owner is not None:
            self.span = owner
        else:
            self.span = scope.begin_span(name, None, SpanKind.CLIENT, {**labels, **values})
            self._context = trace_api.set_span_in_context(self.span)

    def enter(self) -> None:
        """Make the span current until :meth:`leave`; never while the program holds a stream."""
        if self._context is not None:
            self._attached = attach(self._context)

    def leave(self) -> None:
        """Restore what was current before."""
        attached, self._attached = self._attached, None
        if attached is not None:
            detach(attached)

    def end(
        self,
        duration: float,
        found: Mapping[str, Any],
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        first_chunk: float | None = None,
        error: BaseException | None = None,
        end_time: int | None = None,
    ) -> None:
        """Set what was ``found`` on the span, end it if it is ours, and record the metrics.

        ``duration`` and ``first_chunk`` in s, ``end_time`` in ns since the epoch (default now).
        """
        span = self.span
        kind = None if error is None else error_type(error)
        if not self.owned:
            ownership.add_attributes(span, found)
            if not ownership.emits_metrics(span):
                context = trace_api.set_span_in_context(span)
                self._measure((duration, self.labels, input_tokens, output_tokens, first_chunk, kind, context))
            return
        try:
            span.set_attributes(clean(found))
        finally:
            self._scope.end_span(span, kind, end_time)
        if self._context is not None:
            self._measure((duration, self.labels, input_tokens, output_tokens, first_chunk, kind, self._context))

    def _measure(self, measured: _Measured) -> None:
        if not _pending:
            self._scope.observe(metrics.RL_TELEMETRY_ERRORS, _before_collection)
        _pending.append((self._scope, measured))
        if len(_pending) >= _BATCH:
            record_pending()


def record_pending() -> None:
    """Record the measurements that wait."""
    while not deferral.must_wait():
        try:
            scope, measured = _pending.popleft()
        except IndexError:  # another thread may have taken the last one: asking first would not do
            return
        with guard("inference.metrics"):
            duration, labels, input_tokens, output_tokens, first_chunk, kind, context = measured
            # One check for all metrics of the call: they have these attributes in common.
            labels = cardinality_budgets.labels(metrics.GEN_AI_CLIENT_OPERATION_DURATION, labels) or {}
            if input_tokens is not None:
                counted = {**labels, attributes.GEN_AI_TOKEN_TYPE: GenAiTokenTypeValues.INPUT}
                # No exemplar: the duration of the same call has it.
                scope.measure(metrics.GEN_AI_CLIENT_TOKEN_USAGE, input_tokens, counted, NO_SPAN)
            if output_tokens is not None:
                counted = {**labels, attributes.GEN_AI_TOKEN_TYPE: GenAiTokenTypeValues.OUTPUT}
                scope.measure(metrics.GEN_AI_CLIENT_TOKEN_USAGE, output_tokens, counted, NO_SPAN)
            if first_chunk is not None:
                scope.measure(metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, first_chunk, labels, context)
            if kind is not None:
                labels[attributes.ERROR_TYPE] = cardinality_budgets.admit(attributes.ERROR_TYPE, kind)
            scope.measure(metrics.GEN_AI_CLIENT_OPERATION_DURATION, duration, labels, context)


def _before_collection() -> tuple[()]:
    """The callback of an observable instrument, which never observes anything: readers call it before they collect."""
    with deferral.in_callback_of_sdk():
        record_pending()
    return ()


lifecycle.before_shutdown(record_pending)
# The parent records its own; a child must not record them again.
lifecycle.after_fork_in_child(_pending.clear)
