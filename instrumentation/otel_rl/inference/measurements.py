"""Metrics of model calls, recorded for many calls at a time.

Calls of one server and model have the same attributes, for which the SDK takes as long as for the value. So their
values are recorded together, and one of them has the exemplar.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues
from otel_rl.telemetry import cardinality_budgets, deferral, lifecycle
from otel_rl.telemetry.histograms import NO_SPAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.context import Context

    from otel_rl.telemetry.scope import Scope


class Measured(NamedTuple):
    """What is measured of one call.

    Attributes:
        scope: whose metrics they are.
        labels: attributes of all its metrics.
        duration: in s.
        input_tokens: as the server counted them, or None.
        output_tokens: likewise.
        first_chunk: time to the first chunk in s, of a stream.
        error_type: where the call failed.
        context: of its span, for exemplars.
    """

    scope: Scope
    labels: dict[str, Any]
    duration: float
    input_tokens: int | None
    output_tokens: int | None
    first_chunk: float | None
    error_type: str | None
    context: Context


_duration = attrgetter("duration")
#: Measurements wait for this many calls, at most until metrics are collected.
_BATCH = 32
_pending: deque[Measured] = deque()


def add(measured: Measured) -> None:
    """Keep the measurements of a call until there are a few, or until metrics are collected."""
    if not _pending:
        measured.scope.observe(metrics.RL_TELEMETRY_ERRORS, _before_collection)
    _pending.append(measured)
    if len(_pending) >= _BATCH:
        record_pending()


def record_pending() -> None:
    """Record the measurements that wait, those with the same attributes together."""
    groups: dict[Any, list[Measured]] = {}
    while not deferral.must_wait():
        try:
            measured = _pending.popleft()
        except IndexError:  # another thread may have taken the last one: asking first would not do
            break
        key = measured.scope, measured.error_type, tuple(measured.labels.items())
        groups.setdefault(key, []).append(measured)
    for group in groups.values():
        with guard("inference.metrics"):
            _record(group)


def _record(group: list[Measured]) -> None:
    """Record calls with the same attributes. The slowest has the exemplar: it is the one to look at."""
    slowest = max(group, key=_duration)
    scope = slowest.scope
    # One check for all metrics of the calls: they have these attributes in common.
    labels = cardinality_budgets.labels(metrics.GEN_AI_CLIENT_OPERATION_DURATION, slowest.labels) or {}
    inputs = [measured.input_tokens for measured in group if measured.input_tokens is not None]
    if inputs:
        counted = {**labels, attributes.GEN_AI_TOKEN_TYPE: GenAiTokenTypeValues.INPUT}
        # No exemplar: the duration of the same call has it.
        scope.measure_all(metrics.GEN_AI_CLIENT_TOKEN_USAGE, inputs, counted, NO_SPAN)
    outputs = [measured.output_tokens for measured in group if measured.output_tokens is not None]
    if outputs:
        counted = {**labels, attributes.GEN_AI_TOKEN_TYPE: GenAiTokenTypeValues.OUTPUT}
        scope.measure_all(metrics.GEN_AI_CLIENT_TOKEN_USAGE, outputs, counted, NO_SPAN)
    first_chunks = [measured.first_chunk for measured in group if measured.first_chunk is not None]
    if first_chunks:
        metric = metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK
        scope.measure_all(metric, first_chunks, labels, slowest.context)
    if slowest.error_type is not None:
        labels[attributes.ERROR_TYPE] = cardinality_budgets.admit(attributes.ERROR_TYPE, slowest.error_type)
    durations = [slowest.duration, *(measured.duration for measured in group if measured is not slowest)]
    scope.measure_all(metrics.GEN_AI_CLIENT_OPERATION_DURATION, durations, labels, slowest.context)


def _before_collection() -> Iterable[tuple[float, dict[str, Any]]]:
    """The callback of an observable instrument, which never observes anything: readers call it before they collect."""
    with deferral.in_callback_of_sdk():
        record_pending()
    return ()


lifecycle.before_shutdown(record_pending)
# The parent records its own; a child must not record them again.
lifecycle.after_fork_in_child(_pending.clear)
