"""SGLang's own tracer provider beside ours: its endpoint gets its spans, and nothing else."""

from __future__ import annotations

from types import ModuleType

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.sglang.own_tracer import patch_trace


@pytest.fixture
def module(recorded, monkeypatch):
    """Stands for `sglang.srt.observability.trace`; our provider does not keep what is added to it."""
    ours = recorded.tracer_provider
    monkeypatch.setattr(ours._active_span_processor, "_span_processors", ours._active_span_processor._span_processors)
    module = ModuleType("sglang.srt.observability.trace")
    module.trace = trace
    return module


def test_spans_of_the_server_go_to_its_endpoint_as_well_and_others_do_not(module, recorded, caplog):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    patches = Patches()
    patch_trace(module, patches)
    module.trace.set_tracer_provider(provider)
    module.trace.get_tracer("sglang server").start_span("Req").end()
    trace.get_tracer("sglang_program").start_span("of the program").end()
    assert [span.name for span in exporter.get_finished_spans()] == ["Req"]
    assert [span.name for span in recorded.spans] == ["Req", "of the program"]
    assert trace.get_tracer_provider() is recorded.tracer_provider
    assert "Overriding" not in caplog.text
    patches.restore()
    assert module.trace is trace


def test_the_api_of_others_stays_as_it_is(module):
    before = trace.set_tracer_provider
    patch_trace(module, Patches())
    assert trace.set_tracer_provider is before
    assert module.trace.SpanKind is trace.SpanKind


def test_a_server_without_an_exporter_is_left_alone(module):
    del module.trace
    patches = Patches()
    patch_trace(module, patches)
    assert (patches.missing, patches.missing_required) == ([], [])
