"""What is added to an open span past the SDK comes to the same as through it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import INVALID_SPAN

from otel_rl.telemetry import open_spans

VALUES = {"text": "é", "truth": True, "count": 3, "seconds": 0.5, "reasons": ("stop", "length"), "first": "again"}


def _span(**limits):
    return (
        TracerProvider(span_limits=SpanLimits(**limits)).get_tracer("t").start_span("s", attributes={"first": "once"})
    )


def test_values_are_on_the_span_as_if_the_sdk_had_set_them():
    added, expected = _span(), _span()
    assert open_spans._add_below(added, VALUES)
    expected.set_attributes(VALUES)
    assert dict(added.attributes) == dict(expected.attributes)
    assert added.dropped_attributes == expected.dropped_attributes == 0


@pytest.mark.parametrize("limits", [{"max_span_attributes": 3}, {"max_span_attribute_length": 4}], ids=str)
def test_limits_of_the_user_hold(limits):
    added, expected = _span(**limits), _span(**limits)
    open_spans.add(added, VALUES)
    expected.set_attributes(VALUES)
    assert dict(added.attributes) == dict(expected.attributes)
    assert added.dropped_attributes == expected.dropped_attributes


@pytest.mark.parametrize("name", ["_attributes", "_lock", "_end_time"])
def test_a_span_that_keeps_its_attributes_in_another_way_gets_them_from_the_sdk(name, monkeypatch):
    span, given = _span(), []
    del vars(span)[name]
    monkeypatch.setattr(open_spans.SdkSpan, "set_attributes", lambda _, values: given.append(values))
    monkeypatch.setattr(open_spans, "_set_attributes", open_spans.SdkSpan.set_attributes)
    open_spans.add(span, VALUES)
    assert given == [VALUES]


def test_an_override_of_set_attributes_is_called(monkeypatch):
    span, given = _span(), []
    monkeypatch.setattr(type(span), "set_attributes", lambda _, values: given.append(values))
    open_spans.add(span, VALUES)
    assert given == [VALUES]


def test_a_span_that_has_ended_takes_nothing():
    span = _span()
    span.end()
    open_spans.add(span, VALUES)
    assert dict(span.attributes) == {"first": "once"}


def test_a_span_that_records_nothing_takes_nothing():
    open_spans.add(INVALID_SPAN, VALUES)
    assert not INVALID_SPAN.is_recording()
