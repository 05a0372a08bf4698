"""Metrics of model calls, recorded for many calls at a time; one of them has the exemplar."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference import engine_times
from otel_rl.inference.pending_measurements import PendingMeasurements
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues
from otel_rl.telemetry import cardinality_budgets
from otel_rl.telemetry.histograms import NO_SPAN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context

    from otel_rl.telemetry.scope import Scope


class CallMeasurements(NamedTuple):
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
        times: of its requests, as the server reported them, see ``engine_times``.
    """

    scope: Scope
    labels: dict[str, Any]
    duration: float
    input_tokens: int | None
    output_tokens: int | None
    first_chunk: float | None
    error_type: str | None
    context: Context
    times: Sequence[Mapping[str, float]] = ()


_duration = attrgetter("duration")


def _record(group: list[CallMeasurements]) -> None:
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
    reported = [times for measured in group for times in measured.times]
    if reported:
        engine_times.record(scope, engine_times.together(reported), labels, slowest.context)
    if slowest.error_type is not None:
        labels[attributes.ERROR_TYPE] = cardinality_budgets.admit(attributes.ERROR_TYPE, slowest.error_type)
    durations = [slowest.duration, *(measured.duration for measured in group if measured is not slowest)]
    scope.measure_all(metrics.GEN_AI_CLIENT_OPERATION_DURATION, durations, labels, slowest.context)


#: The calls of this process.
pending: PendingMeasurements[CallMeasurements] = PendingMeasurements("inference.metrics", _record)
add = pending.add
