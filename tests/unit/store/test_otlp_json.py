"""Our OTLP JSON says what the official encoder says, for every kind of value, and notices a resource that changes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.json.common._log_encoder import encode_logs as official_logs
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as official_spans
from opentelemetry.sdk._logs import LogRecordLimits, ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from otel_rl.store.writer import otlp_json

texts = st.text(max_size=12)
keys = st.text(min_size=1, max_size=8)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | texts | st.binary(max_size=6)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)
attribute_maps = st.dictionaries(keys, values, max_size=4)
contexts = st.builds(
    SpanContext,
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    is_remote=st.booleans(),
    trace_flags=st.sampled_from([TraceFlags(0), TraceFlags(1), TraceFlags(3)]),
    trace_state=st.sampled_from([TraceState(), TraceState([("vendor", "1"), ("other", "x y")])]),
)
statuses = st.sampled_from([Status(StatusCode.UNSET), Status(StatusCode.OK), Status(StatusCode.ERROR, "why"), None])


def read(encoded: bytes) -> Any:
    """What ``encoded`` says; it is ASCII without line breaks, and strict JSON."""
    assert b"\n" not in encoded

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(encoded.decode("ascii"), parse_constant=refuse)


def span_of(provider: TracerProvider, memory: InMemorySpanExporter, parent: SpanContext, **given: Any) -> ReadableSpan:
    memory.clear()
    context = set_span_in_context(NonRecordingSpan(parent)) if given.pop("has_parent") else None
    status, events, name = given.pop("status"), given.pop("events"), given.pop("name")
    span = provider.get_tracer("scope", "1", "https://schema.invalid/1").start_span(name, context, **given)
    for event, attributes, moment in events:
        span.add_event(event, attributes, moment)
    if status is not None:
        span.set_status(status)
    span.end()
    return memory.get_finished_spans()[0]


@pytest.fixture(scope="module")
def pipeline() -> tuple[TracerProvider, InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    resource = Resource({"service.name": "s", "numbers": [1, 2]}, "https://schema.invalid/2")
    # So few that some are dropped, which is counted.
    limits = SpanLimits(max_span_attributes=3, max_events=1, max_links=1, max_event_attributes=2, max_link_attributes=2)
    provider = TracerProvider(resource=resource, shutdown_on_exit=False, span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider, memory


@settings(deadline=None)
@given(
    parent=contexts,
    link=contexts,
    attributes=attribute_maps,
    status=statuses,
    events=st.lists(st.tuples(keys, attribute_maps, st.integers(1, 2**62)), max_size=2),
    name=keys,
    kind=st.sampled_from(SpanKind),
    has_parent=st.booleans(),
    link_number=st.integers(0, 2),
)
def test_spans_read_as_the_official_encoder_writes_them(pipeline, parent, link, link_number, **given):
    sampled = SpanContext(parent.trace_id, parent.span_id, parent.is_remote, TraceFlags(1), parent.trace_state)
    links = [Link(link, given["attributes"])] * link_number
    span = span_of(*pipeline, sampled, links=links, **given)
    assert read(otlp_json.encode_spans([span])) == json.loads(json.dumps(official_spans([span]).to_dict()))


@given(
    body=values,
    attributes=attribute_maps,
    severity=st.none() | st.sampled_from(SeverityNumber),
    text=st.none() | texts,
    name=st.none() | texts,
    context=st.none() | contexts,
    moment=st.none() | st.integers(1, 2**62),
    limits=st.none() | st.just(LogRecordLimits(max_attributes=2)),
)
def test_log_records_read_as_the_official_encoder_writes_them(
    body, attributes, severity, text, name, context, moment, limits
):
    record = LogRecord(
        timestamp=moment,
        observed_timestamp=moment,
        context=set_span_in_context(NonRecordingSpan(context)) if context is not None else None,
        severity_number=severity,
        severity_text=text,
        body=body,
        attributes=attributes,
        event_name=name,
    )
    if limits is not None:
        record.attributes = BoundedAttributes(limits.max_attributes, attributes, False, None)
    readable = ReadableLogRecord(record, Resource({"a": 1}), InstrumentationScope("scope", "1"), limits)
    assert read(otlp_json.encode_logs([readable])) == json.loads(json.dumps(official_logs([readable]).to_dict()))


def record_with(body: Any, resource: Resource, scope: InstrumentationScope | None) -> ReadableLogRecord:
    return ReadableLogRecord(LogRecord(timestamp=1, body=body), resource, scope)


def test_items_are_grouped_by_resource_and_scope_in_their_order():
    first, second = Resource({"rank": 0}), Resource({"rank": 1})
    one, other = InstrumentationScope("one"), InstrumentationScope("other", "2", "https://schema.invalid", {"k": "v"})
    records = [
        record_with("a", first, one),
        record_with("b", second, other),
        record_with("c", first, one),
        record_with("d", first, None),
    ]
    assert read(otlp_json.encode_logs(records)) == json.loads(json.dumps(official_logs(records).to_dict()))


class ChangingResource(Resource):
    """Like the resource of a process, which learns its rank after its first records."""

    known: Resource

    @property
    def attributes(self) -> Any:
        return self.known.attributes


def test_a_resource_that_learns_something_is_written_anew():
    resource = ChangingResource({})
    ranks = []
    for attributes in ({}, {"rl.rank": 1}):
        resource.known = Resource(attributes)
        written = read(otlp_json.encode_logs([record_with("x", resource, None)]))
        ranks.append(written["resourceLogs"][0]["resource"])
    assert ranks == [{}, {"attributes": [{"key": "rl.rank", "value": {"intValue": "1"}}]}]


def test_tables_of_texts_stay_bounded_and_right_with_ever_new_scopes_and_keys():
    resource = Resource({})
    for number in range(3 * otlp_json._MAXIMUM_KEPT):
        record = LogRecord(timestamp=1, body=None, attributes={f"key{number}": number})
        readable = ReadableLogRecord(record, resource, InstrumentationScope(f"scope{number}"))
        (scope,) = read(otlp_json.encode_logs([readable]))["resourceLogs"][0]["scopeLogs"]
        assert scope["scope"] == {"name": f"scope{number}"}
        assert scope["logRecords"][0]["attributes"] == [
            {"key": f"key{number}", "value": {"intValue": str(number)}},
        ]
    assert max(len(otlp_json._scopes), len(otlp_json._keys)) <= otlp_json._MAXIMUM_KEPT


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_text(number):
    (resource,) = read(otlp_json.encode_logs([record_with(number, Resource({}), None)]))["resourceLogs"]
    (record,) = resource["scopeLogs"][0]["logRecords"]
    assert float(record["body"]["doubleValue"]) == number or math.isnan(number)


def test_a_value_that_otlp_does_not_have_is_refused_by_its_type():
    with pytest.raises(TypeError, match="no values of type complex"):
        otlp_json.encode_logs([record_with(1j, Resource({}), None)])


def test_names_and_versions_that_are_no_text_cost_nothing(pipeline):
    provider, memory = pipeline
    memory.clear()
    with provider.get_tracer("scope", 7).start_as_current_span("s") as span:
        span.add_event(None)
    [found] = read(otlp_json.encode_spans(memory.get_finished_spans()))["resourceSpans"]
    [scope] = found["scopeSpans"]
    assert scope["scope"] == {"name": "scope", "version": "7"}
    assert "name" not in scope["spans"][0]["events"][0]


def test_a_severity_that_is_a_plain_number_is_written():
    readable = record_with("x", Resource({}), None)
    readable.log_record.severity_number = 9
    text = json.dumps(read(otlp_json.encode_logs([readable])))
    assert '"severityNumber": 9' in text


def test_keys_that_are_content_are_not_kept(monkeypatch):
    monkeypatch.setattr(otlp_json, "_keys", {})
    long = "k" * 1000
    body = {"prompt of the program": {long: 1}}
    record = record_with(body, Resource({}), None)
    record.log_record.attributes = {long: 1, "known": 2}
    assert long in json.dumps(read(otlp_json.encode_logs([record])))
    assert list(otlp_json._keys) == ["known"]
