"""Span processors of the program on our provider: whoever fails or is slow harms no other."""

from __future__ import annotations

import logging
import threading

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_rl.core import guard, instrumentor_status
from otel_rl.pipeline import processors
from otel_rl.pipeline.processors import IsolatedSpanProcessors


class Noted(SpanProcessor):
    """Notes what it is called with, and fails in the methods that ``failing`` names."""

    def __init__(self, calls=None, name="", failing=(), error=ValueError):
        self.calls, self.name, self.failing, self.error = [] if calls is None else calls, name, failing, error

    def _note(self, method, *given):
        self.calls.append((self.name, method, *given))
        if method in self.failing:
            raise self.error("boom")

    def on_start(self, span, parent_context=None):
        self._note("on_start", parent_context, threading.get_ident())
        span.set_attribute(f"set.by.{self.name}", True)

    def _on_ending(self, span):
        self._note("_on_ending")

    def on_end(self, span):
        self._note("on_end")


@pytest.fixture(autouse=True)
def nothing_reported(monkeypatch):
    monkeypatch.setattr(guard, "_logged", set())
    monkeypatch.setattr(guard, "_errors", {})
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})


@pytest.fixture
def exported():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exported):
    found = TracerProvider(active_span_processor=IsolatedSpanProcessors(), shutdown_on_exit=False)
    found.add_span_processor(SimpleSpanProcessor(exported))
    return found


def start_and_end(provider, context=None):
    with provider.get_tracer("program").start_as_current_span("work", context=context):
        pass


@pytest.mark.parametrize("method", ["on_start", "_on_ending", "on_end"])
@pytest.mark.parametrize("is_first", [True, False])
def test_one_that_raises_costs_no_other_a_call_and_the_program_no_error(provider, exported, caplog, method, is_first):
    calls = []
    order = [Noted(calls, "bad", [method]), Noted(calls, "good")]
    for processor in order if is_first else reversed(order):
        provider.add_span_processor(processor)

    with caplog.at_level(logging.WARNING, "otel_rl"):
        for _ in range(3):
            start_and_end(provider)

    assert len(exported.get_finished_spans()) == 3
    assert [method for name, method, *_ in calls if name == "good"] == ["on_start", "_on_ending", "on_end"] * 3
    assert guard.error_counts() == {"program.span_processors": 3}
    assert [line.partition(" (")[0] for line in caplog.messages] == [
        f"otel-rl: error of the span processor {__name__}.Noted of the program in {method}"
    ]


def test_those_that_behave_are_called_in_their_order_in_the_thread_of_the_program_and_may_set_attributes(
    provider, exported
):
    calls, parent = [], Context({"key": "value"})
    provider.add_span_processor(Noted(calls, "one"))
    provider.add_span_processor(Noted(calls, "two"))
    start_and_end(provider, parent)

    here = threading.get_ident()
    assert calls == [
        ("one", "on_start", parent, here),
        ("two", "on_start", parent, here),
        ("one", "_on_ending"),
        ("two", "_on_ending"),
        ("one", "on_end"),
        ("two", "on_end"),
    ]
    assert exported.get_finished_spans()[0].attributes == {"set.by.one": True, "set.by.two": True}
    assert guard.error_counts() == {}


def test_an_interruption_of_the_program_passes(provider):
    provider.add_span_processor(Noted(failing=["on_start"], error=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        start_and_end(provider)


def test_a_slow_one_is_measured_and_named_for_the_last_line(provider, monkeypatch):
    monkeypatch.setattr(processors, "SLOW", 0.0)
    provider.add_span_processor(Noted(name="slow"))
    start_and_end(provider)
    start_and_end(provider)

    [state] = [known for known in processors.foreign_processors(provider) if known.name == f"{__name__}.Noted"]
    assert (state.slow, state.failed) == (6, 0)
    outcome = instrumentor_status.snapshot()[f"span processor {__name__}.Noted"]
    assert outcome["state"] == instrumentor_status.DEGRADED
    assert outcome["reason"].startswith("6 of its calls were slow, the latest took ")


def test_a_provider_made_elsewhere_is_isolated_with_the_tracers_that_it_has(exported):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Noted(failing=["on_start"]))
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracer = provider.get_tracer("program")
    processors.isolate_processors(provider)
    tracer.start_span("work").end()

    assert [span.name for span in exported.get_finished_spans()] == ["work"]
    assert trace.get_current_span() is trace.INVALID_SPAN


class Ended(Noted):
    """Notes that it was shut down."""

    def shutdown(self):
        self._note("shutdown")


def test_those_of_the_program_are_shut_down_once_at_its_exit_whoever_fails(provider):
    bad, good = Ended(failing=["shutdown"]), Ended()
    provider.add_span_processor(bad)
    provider.add_span_processor(good)
    for _ in range(2):
        provider._active_span_processor.end_foreign()
    assert [call[1] for call in (*bad.calls, *good.calls)] == ["shutdown", "shutdown"]


def test_one_that_lacks_a_method_costs_the_program_no_error(provider, exported):
    class Duck:
        def on_start(self, span, parent_context=None):
            pass

        def on_end(self, span):
            pass

    provider.add_span_processor(Duck())
    start_and_end(provider)
    assert len(exported.get_finished_spans()) == 1
