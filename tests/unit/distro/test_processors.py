"""What is put on spans on their way to an exporter."""

from __future__ import annotations

from opentelemetry.sdk.trace import SpanLimits, TracerProvider

from otel_rl.pipeline.processors import SDK_LENGTH_LIMIT, mark_truncation
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH


def test_cut_attributes_are_marked_and_left_out_ones_stay_counted():
    provider = TracerProvider(
        span_limits=SpanLimits(max_attribute_length=SDK_LENGTH_LIMIT, max_span_attributes=2), shutdown_on_exit=False
    )
    span = provider.get_tracer("t").start_span("s", attributes={"a": 1, "b": 2, "long": "x" * 20_000})
    span.end()
    dropped = span.dropped_attributes
    mark_truncation(span)

    assert len(span.attributes["long"]) == MAXIMUM_LENGTH
    assert span.attributes["long"].endswith("[truncated]")
    assert span.dropped_attributes == dropped == 1
