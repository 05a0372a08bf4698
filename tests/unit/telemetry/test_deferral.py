"""What interrupts a call into the SDK is recorded after it, as it was."""

from __future__ import annotations

import gc
import os
import threading

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import SpanProcessor

import otel_rl
from otel_rl.semconv import events, metrics, spans
from otel_rl.telemetry import Scope, deferral, drops

_scope = Scope("test")


class _Interrupts(SpanProcessor):
    """Stands for a signal handler that runs while its thread is inside the SDK."""

    def __init__(self, handler):
        self._handler = handler

    def on_end(self, span):
        handler, self._handler = self._handler, None
        if handler is not None:
            handler()


def _interrupt(recorded, handler):
    processor = _Interrupts(handler)
    recorded.tracer_provider.add_span_processor(processor)
    with otel_rl.tool("outer"):
        pass


def test_a_span_that_begins_and_ends_inside_the_sdk_has_its_own_times_ids_and_attributes(recorded):
    seen = []

    def handler():
        with otel_rl.rollout(sample_id=5), otel_rl.tool("inner"):
            seen.append(trace.get_current_span().get_span_context())
            assert recorded._spans.get_finished_spans() != ()

    _interrupt(recorded, handler)
    inner, rollout = recorded.span("execute_tool inner"), recorded.span("rl.rollout")
    assert (inner.context.trace_id, inner.context.span_id) == (seen[0].trace_id, seen[0].span_id)
    assert inner.parent.span_id == rollout.context.span_id
    assert inner.attributes["rl.sample.id"] == "5"
    assert rollout.start_time <= inner.start_time <= inner.end_time <= rollout.end_time
    assert inner.end_time <= recorded.span("execute_tool outer").end_time + 10**9


def test_measurements_and_events_inside_the_sdk_keep_their_context(recorded):
    def handler():
        with otel_rl.rollout("r-1"):
            otel_rl.reward("score", 0.5)
        _scope.observe(metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET, lambda: [(1.0, {})])

    _interrupt(recorded, handler)
    assert recorded.span("rl.rollout")
    assert recorded.metrics()["rl.reward.score"][0].count == 1
    (event,) = recorded.events("gen_ai.evaluation.result")
    assert event.trace_id == recorded.span("rl.rollout").context.trace_id


def test_a_generator_that_the_collector_closes_is_recorded_at_the_next_call_with_its_own_end(recorded, queued):
    @otel_rl.rollout()
    def episode():
        yield 1

    gc.collect()  # what other tests left
    generator = episode()
    next(generator)
    del generator
    gc.collect()
    assert len(queued) == 1
    moment = deferral.now().wall
    with otel_rl.tool("next"):
        pass
    ended = [span for span in recorded._spans.get_finished_spans() if span.name == "rl.rollout"]
    assert len(ended) == 1
    assert ended[0].end_time <= moment


def test_what_waits_at_a_fork_is_recorded_by_the_parent_only(recorded):
    reading, writing = os.pipe()
    deferral.later("traces", lambda: os.write(writing, b"x"))
    pid = os.fork()
    if pid == 0:
        deferral.release_child()
        deferral.drain()
        os._exit(0)
    os.waitpid(pid, 0)
    deferral.drain()
    os.close(writing)
    assert os.read(reading, 10) == b"x"


def test_recordings_of_fork_handlers_wait_until_the_fork_is_over(recorded):
    deferral._before_fork()
    with otel_rl.tool("before_fork"):
        pass
    assert recorded._spans.get_finished_spans() == ()
    deferral._after_fork_in_parent()
    assert recorded.span("execute_tool before_fork")


def test_a_full_queue_drops_and_counts(recorded, monkeypatch):
    monkeypatch.setattr(deferral, "MAXIMUM", 1)
    before = drops.snapshot().get(("traces", "deferral_full"), 0)
    deferral._before_fork()  # no thread drains the queue meanwhile
    deferral.later("traces", lambda: None)
    deferral.later("traces", lambda: None)
    deferral._after_fork_in_parent()
    assert drops.snapshot()["traces", "deferral_full"] == before + 1


def test_a_marked_io_thread_records_nothing_in_place_and_works_off_the_queue(recorded, queued):
    def thread():
        deferral.mark_io_thread()
        _scope.event(events.RL_STEP, body={"a": 1})
        found.append(len(queued))
        deferral.drain_in_io_thread(posts=False)
        found.append(deferral.must_wait())

    found = []
    worker = threading.Thread(target=thread)
    worker.start()
    worker.join()
    assert found == [1, True]
    assert len(recorded.events("rl.step")) == 1


def test_counting_drops_is_exact_from_many_threads():
    before = drops.snapshot().get(("logs", "exactness"), 0)
    threads = [
        threading.Thread(target=lambda: [drops.count("logs", "exactness") for _ in range(5000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drops.snapshot()["logs", "exactness"] - before == 20000


def test_a_deferred_span_below_a_baggage_keeps_it(recorded):
    def handler():
        context = baggage.set_baggage("rl.group.id", "g")
        span = _scope.start_span(spans.RL_GENERATE, context=context)
        span.add_event("happened", {"a": 1})
        span.update_name("renamed")
        _scope.end_span(span, "timeout")

    _interrupt(recorded, handler)
    span = recorded.span("renamed")
    assert span.attributes["rl.group.id"] == "g"
    assert span.attributes["error.type"] == "timeout"
    assert [event.name for event in span.events] == ["happened"]
