"""What is added to an open span past the SDK comes to the same as through it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_ON,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import INVALID_SPAN, SpanKind

from otel_rl.pipeline.processors import IsolatedSpanProcessors
from otel_rl.telemetry import Scope, correlation, open_spans
from otel_rl.telemetry.correlation import BaggageSpanProcessor

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


class AsksForAttributes(SpanProcessor):
    """Of the program."""

    def __init__(self):
        self.seen = []

    def on_start(self, span, parent_context=None):
        self.seen.append(dict(span.attributes))


class SamplesByAttributes(Sampler):
    """Of the program."""

    def __init__(self):
        self.seen = []

    def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None, trace_state=None):
        self.seen.append(dict(attributes or {}))
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self):
        return "by attributes"


PLAIN = {key: value for key, value in VALUES.items() if key != "reasons"}


@pytest.fixture
def begin(monkeypatch):
    """Starts a span of ours with attributes, at a provider of the test."""

    def begin(provider, values, context=None):
        monkeypatch.setattr(trace_api, "get_tracer", lambda *given, **named: provider.get_tracer(*given[:2], **named))
        return Scope("test").begin_span("s", context, SpanKind.CLIENT, values)

    return begin


@pytest.fixture
def passed(monkeypatch):
    """How many attributes each start has handed to the SDK."""
    found = []

    class Started(sdk_trace._Span):
        def __init__(self, *given, attributes=None, **named):
            found.append(len(attributes or ()))
            super().__init__(*given, attributes=attributes, **named)

    monkeypatch.setattr(sdk_trace, "_Span", Started)
    return found


@pytest.mark.parametrize(
    "sampler",
    [ALWAYS_ON, DEFAULT_ON, ParentBasedTraceIdRatio(1.0), TraceIdRatioBased(1.0)],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("hands_on", [None, IsolatedSpanProcessors], ids=["the SDK's provider", "our provider"])
def test_attributes_come_after_the_start_where_nobody_looks_at_them_before(begin, passed, sampler, hands_on):
    provider = TracerProvider(sampler=sampler, active_span_processor=hands_on and hands_on())
    for processor in (BaggageSpanProcessor(), BatchSpanProcessor(InMemorySpanExporter())):
        provider.add_span_processor(processor)
    span = begin(provider, PLAIN)
    assert dict(span.attributes) == PLAIN
    assert passed == [0]
    provider.shutdown()


def test_what_a_span_says_itself_wins_over_baggage_also_after_the_start(begin, passed):
    provider = TracerProvider()
    provider.add_span_processor(BaggageSpanProcessor())
    context = correlation.baggage_context({"rl.run.id": "of baggage", "rl.rollout.id": "r"})
    span = begin(provider, {"rl.run.id": "own"}, context)
    assert dict(span.attributes) == {"rl.run.id": "own", "rl.rollout.id": "r"}
    assert passed == [0]


def test_a_processor_of_the_program_finds_the_attributes_at_the_start(begin):
    provider, processor = TracerProvider(), AsksForAttributes()
    begin(provider, PLAIN)
    provider.add_span_processor(processor)
    begin(provider, PLAIN)
    assert processor.seen == [PLAIN]


def test_a_processor_that_is_added_later_finds_them_too(monkeypatch):
    provider, processor = TracerProvider(), AsksForAttributes()
    monkeypatch.setattr(trace_api, "get_tracer", lambda *given, **named: provider.get_tracer(*given[:2], **named))
    scope = Scope("test")
    scope.begin_span("before", None, SpanKind.CLIENT, PLAIN)
    provider.add_span_processor(processor)
    scope.begin_span("after", None, SpanKind.CLIENT, PLAIN)
    assert processor.seen == [PLAIN]


@pytest.mark.parametrize("make", [lambda sampler: sampler, ParentBased], ids=["itself", "below another"])
def test_a_sampler_of_the_program_finds_them(begin, make):
    sampler = SamplesByAttributes()
    span = begin(TracerProvider(sampler=make(sampler)), PLAIN)
    assert sampler.seen == [PLAIN]
    assert dict(span.attributes) == PLAIN


def test_lists_are_left_to_the_sdk(begin, passed):
    span = begin(TracerProvider(), {**PLAIN, "reasons": ["stop", "length"]})
    assert dict(span.attributes) == {**PLAIN, "reasons": ("stop", "length")}
    assert passed == [len(PLAIN) + 1]


@pytest.mark.parametrize("limits", [{"max_span_attributes": 3}, {"max_span_attribute_length": 4}], ids=str)
def test_limits_of_the_user_hold_at_the_start(begin, limits):
    provider = TracerProvider(span_limits=SpanLimits(**limits))
    span, expected = begin(provider, PLAIN), provider.get_tracer("t").start_span("s", attributes=PLAIN)
    assert dict(span.attributes) == dict(expected.attributes)
    assert span.dropped_attributes == expected.dropped_attributes


def test_a_span_that_is_not_sampled_takes_no_attributes(begin):
    assert not begin(TracerProvider(sampler=ALWAYS_OFF), PLAIN).is_recording()


def test_where_nothing_more_can_be_imported_the_sdk_gets_the_attributes_at_the_start(begin, passed, monkeypatch):
    # As in a program that has set up its provider itself, has no descriptor left, and begins its first span of ours.
    monkeypatch.setitem(sys.modules, "otel_rl.telemetry.open_spans", None)
    span = begin(TracerProvider(), PLAIN)
    assert dict(span.attributes) == PLAIN
    assert passed == [len(PLAIN)]


class Proxy:
    """Stands for a processor, and has no method of its own."""

    def __init__(self, processor):
        self._processor = processor

    def __getattr__(self, name):
        return getattr(self._processor, name)


@pytest.mark.parametrize("when", ["before it is added", "after the first span"])
@pytest.mark.parametrize("where", ["instance", "class", "proxy"])
def test_a_processor_that_has_got_another_method_finds_the_attributes(begin, monkeypatch, where, when):
    provider, seen, processor = TracerProvider(), [], BatchSpanProcessor(InMemorySpanExporter())

    def on_start(*given, **_):
        seen.append(dict(given[-1].attributes))

    def change():
        monkeypatch.setattr(BatchSpanProcessor if where == "class" else processor, "on_start", on_start)

    added = Proxy(processor) if where == "proxy" else processor
    if when == "before it is added":
        change()
    provider.add_span_processor(added)
    if when == "after the first span":
        begin(provider, PLAIN)
        change()
    assert dict(begin(provider, PLAIN).attributes) == PLAIN
    assert seen == [PLAIN]
    provider.shutdown()


@pytest.mark.parametrize("of", [Tracer, TracerProvider, ParentBased], ids=lambda one: one.__name__)
def test_what_the_program_has_put_in_the_place_of_the_sdks_start_finds_the_attributes(monkeypatch, begin, of):
    provider, seen = TracerProvider(sampler=DEFAULT_ON), []
    owner, name = {
        Tracer: (Tracer, "start_span"),
        TracerProvider: (provider.sampler, "should_sample"),
        ParentBased: (ParentBased, "should_sample"),
    }[of]
    original = getattr(owner, name)

    def method(*given, **named):
        seen.extend(dict(one) for one in (*given, *named.values()) if isinstance(one, Mapping))
        return original(*given, **named)

    monkeypatch.setattr(owner, name, method)
    begin(provider, PLAIN)
    assert PLAIN in seen


def test_a_thread_that_comes_while_another_asks_gets_no_answer_about_other_processors(monkeypatch):
    provider, processor = TracerProvider(), AsksForAttributes()
    monkeypatch.setattr(trace_api, "get_tracer", lambda *given, **named: provider.get_tracer(*given[:2], **named))
    scope = Scope("test")
    scope.begin_span("before", None, SpanKind.CLIENT, PLAIN)
    provider.add_span_processor(processor)
    starts = open_spans._starts

    def interrupted(*given):
        monkeypatch.setattr(open_spans, "_starts", starts)
        other = threading.Thread(target=scope.begin_span, args=("meanwhile", None, SpanKind.CLIENT, PLAIN))
        other.start()
        other.join()
        return starts(*given)

    monkeypatch.setattr(open_spans, "_starts", interrupted)
    scope.begin_span("after", None, SpanKind.CLIENT, PLAIN)
    assert processor.seen == [PLAIN, PLAIN]


def test_limits_of_the_user_drop_the_same_attributes_as_before(begin):
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=3))
    provider.add_span_processor(BaggageSpanProcessor())
    context = correlation.baggage_context({"rl.run.id": "of baggage", "rl.rollout.id": "r"})
    values = {"a": 1, "b": 2, "rl.run.id": "own"}
    span, expected = (
        begin(provider, values, context),
        provider.get_tracer("t").start_span("s", context, attributes=values),
    )
    assert dict(span.attributes) == dict(expected.attributes)
    assert span.dropped_attributes == expected.dropped_attributes


def test_what_a_signal_handler_raises_while_the_first_span_begins_reaches_the_program(begin, monkeypatch):
    def handler(*_):
        raise TimeoutError

    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == open_spans.__name__:
                signal.raise_signal(signal.SIGALRM)

    monkeypatch.delitem(sys.modules, open_spans.__name__)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError):
            begin(TracerProvider(), PLAIN)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_a_signal_handler_raises_while_processors_are_asked_reaches_the_program(begin):
    def handler(*_):
        raise TimeoutError

    class Signals(SpanProcessor):
        def __getattribute__(self, name):
            if name == "on_start" and armed:
                armed.clear()
                signal.raise_signal(signal.SIGALRM)
            return super().__getattribute__(name)

    armed, provider = [1], TracerProvider()
    provider.add_span_processor(Signals())
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError):
            begin(provider, PLAIN)
    finally:
        signal.signal(signal.SIGALRM, before)
