"""vLLM's own tracer provider beside ours: its endpoint gets its spans, and nothing else."""

from __future__ import annotations

from types import ModuleType

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.vllm.own_tracer import patch_tracing


@pytest.fixture
def theirs():
    """A provider as vLLM makes it, and what it exports."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


@pytest.fixture
def module(recorded, monkeypatch):
    """Stands for `vllm.tracing.otel`; our provider does not keep what is added to it."""
    ours = recorded.tracer_provider
    monkeypatch.setattr(ours._active_span_processor, "_span_processors", ours._active_span_processor._span_processors)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    module = ModuleType("vllm.tracing.otel")
    module.set_tracer_provider = trace.set_tracer_provider
    return module


def test_spans_of_the_engine_go_to_its_endpoint_as_well_and_others_do_not(module, theirs, recorded, caplog):
    provider, exporter = theirs
    patches = Patches()
    patch_tracing(module, patches)
    module.set_tracer_provider(provider)
    trace.get_tracer("vllm.tracing.otel").start_span("llm_request").end()
    trace.get_tracer("program").start_span("of the program").end()
    assert [span.name for span in exporter.get_finished_spans()] == ["llm_request"]
    assert [span.name for span in recorded.spans] == ["llm_request", "of the program"]
    assert trace.get_tracer_provider() is recorded.tracer_provider
    assert "Overriding" not in caplog.text
    patches.restore()
    assert module.set_tracer_provider is trace.set_tracer_provider


def test_of_two_engines_the_endpoint_of_the_first_gets_each_span_once_as_without_us(module, theirs, recorded, caplog):
    provider, exporter = theirs
    second, seconds_exporter = TracerProvider(), InMemorySpanExporter()
    second.add_span_processor(SimpleSpanProcessor(seconds_exporter))
    patch_tracing(module, Patches())
    for made in (provider, second):
        module.set_tracer_provider(made)
    trace.get_tracer("vllm.tracing.otel").start_span("llm_request").end()
    assert [span.name for span in exporter.get_finished_spans()] == ["llm_request"]
    assert seconds_exporter.get_finished_spans() == ()
    assert "Overriding" in caplog.text
    assert trace.get_tracer_provider() is recorded.tracer_provider


def test_where_our_exporter_goes_to_the_endpoint_already_it_gets_each_span_once(module, theirs, recorded, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces")
    provider, exporter = theirs
    patch_tracing(module, Patches())
    module.set_tracer_provider(provider)
    trace.get_tracer("vllm.tracing.otel").start_span("llm_request").end()
    assert exporter.get_finished_spans() == ()
    assert recorded.span("llm_request")


def test_a_provider_that_is_none_of_the_sdk_is_set_as_without_us(module, recorded):
    given = []
    module.set_tracer_provider = given.append
    patch_tracing(module, Patches())
    other = object()
    module.set_tracer_provider(other)
    assert given == [other]


def test_a_version_without_the_name_is_left_alone(module):
    del module.set_tracer_provider
    patches = Patches()
    patch_tracing(module, patches)
    assert patches.missing == ["vllm.tracing.otel.set_tracer_provider"]
