"""What the trainer's thread leaves to an I/O thread."""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import sampling

from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.providers import _parent_decides
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, deferral, drops
from otel_rl.telemetry.attribute_values import MAXIMUM_ATTRIBUTES
from otel_rl.telemetry.deferral import Moment
from otel_rl.telemetry.deferred_span import MAXIMUM_EVENTS
from otel_rl.training import scalars, steps
from otel_rl.training.phases import Phase

_scope = Scope("posts")


class ExpectedError(Exception):
    """Raised by the tests."""


def test_a_step_is_recorded_by_the_io_thread_with_its_own_times_and_parents(recorded, io_thread):
    before = time.time_ns()
    steps.begin(7, _scope)
    with Phase(spans.RL_SAMPLE, _scope) as phase, trace.get_tracer("program").start_as_current_span("inside"):
        here = phase.span.get_span_context()
    steps.finish()
    after = time.time_ns()
    assert [span.name for span in recorded._spans.get_finished_spans()] == ["inside"]

    io_thread.flush_now()
    sample, inside, step = recorded.span("rl.sample"), recorded.span("inside"), recorded.span("rl.rank.step")
    assert (sample.context.trace_id, sample.context.span_id) == (here.trace_id, here.span_id)
    assert inside.parent.span_id == here.span_id
    assert sample.parent.span_id == step.context.span_id
    assert before <= step.start_time <= sample.start_time <= sample.end_time <= step.end_time <= after
    assert sample.attributes["rl.loop.iteration"] == 7
    points = recorded.metrics()
    assert (points["rl.sample.duration"][0].count, points["rl.loop.duration"][0].count) == (1, 1)
    assert 0 <= points["rl.sample.duration"][0].sum <= points["rl.loop.duration"][0].sum


def test_the_first_post_of_a_process_wakes_the_io_thread_which_may_sleep_for_a_second(recorded, io_thread, monkeypatch):
    woken = []
    monkeypatch.setattr(deferral, "_is_woken", False)
    monkeypatch.setattr(io_thread, "wake", lambda: woken.append(len(deferral.posted)))
    for _ in range(3):
        deferral.post("traces", lambda: None)
    assert woken == [1]


def test_of_a_gauge_that_is_logged_again_before_it_is_recorded_the_last_value_counts(recorded, io_thread, monkeypatch):
    measured = []
    measure = Scope.measure
    monkeypatch.setattr(Scope, "measure", lambda *args: measured.append(args[1].name) or measure(*args))
    values = scalars.ScalarSink()
    for step in (1, 2, 3):
        values.log(_scope, scalars.Source.TRAINER, step, {"loss": float(step)})

    io_thread.flush_now()
    assert [event.body for event in recorded.events("rl.step")] == [{"loss": 1.0}, {"loss": 2.0}, {"loss": 3.0}]
    assert measured.count("rl.train.loss") == 1
    assert 3.0 in [point.value for point in recorded.metrics()["rl.train.loss"]]


def test_a_step_of_a_process_without_a_shared_root_begins_when_it_began(recorded, io_thread, monkeypatch):
    alone = replace(process_identity.current(), steps_key=None)
    monkeypatch.setattr(process_identity, "_current", alone)
    loop = steps.Loop()
    loop.begin(1, _scope, Moment(1.0, 1_000_000_000))
    loop.finish()
    io_thread.flush_now()
    assert recorded.span("rl.rank.step").start_time == 1_000_000_000


def test_what_the_program_does_with_the_current_span_is_on_the_recorded_one(recorded, io_thread):
    steps.begin(1, _scope)
    with Phase(spans.RL_REWARD, _scope):
        current = trace.get_current_span()
        current.set_attribute("program", "x")
        current.add_event("seen")
        current.record_exception(ExpectedError("why"))
        current.add_link(trace.SpanContext(1, 2, is_remote=True))
        current.update_name("scored")
    steps.finish()
    io_thread.flush_now()
    span = recorded.span("scored")
    assert span.attributes["program"] == "x"
    assert [event.name for event in span.events] == ["seen", "exception"]
    assert span.events[1].attributes["exception.message"] == "why"
    assert "ExpectedError" in span.events[1].attributes["exception.type"]
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(1, 2)]


class MuteError(Exception):
    """Has no text."""

    def __str__(self):
        raise RuntimeError("no text")


def test_the_current_span_takes_values_as_they_are_at_the_call(recorded, io_thread):
    tags, details, value = ["first"], {"k": 1}, threading.Event()
    kept = weakref.ref(value)
    steps.begin(1, _scope)
    current = trace.get_current_span()
    current.set_attribute("tags", tags)
    current.set_attributes({"value": value})
    current.add_event("seen", details)
    tags.append("second")
    details["k"] = 2
    del value
    assert kept() is None
    steps.finish()
    io_thread.flush_now()
    step = recorded.span("rl.rank.step")
    assert step.attributes["tags"] == ("first",)
    assert [dict(event.attributes) for event in step.events] == [{"k": 1}]


def test_the_current_span_is_bounded(recorded, io_thread):
    steps.begin(1, _scope)
    current = trace.get_current_span()
    for number in range(MAXIMUM_EVENTS + 500):
        current.add_event(f"token {number}")
        current.add_link(trace.SpanContext(1, number + 1, is_remote=True))
        current.set_attribute(f"token {number}", number)
    assert (len(current._events), len(current._links)) == (MAXIMUM_EVENTS, MAXIMUM_EVENTS)
    assert len(current.attributes) == MAXIMUM_ATTRIBUTES
    counted = drops.snapshot()
    assert (counted["traces", "event_limit"], counted["traces", "link_limit"]) == (500, 500)
    steps.finish()
    io_thread.flush_now()
    assert recorded.span("rl.rank.step").events[-1].name == f"token {MAXIMUM_EVENTS + 499}"


def test_an_exception_without_a_text_is_recorded_on_the_current_span(recorded, io_thread):
    steps.begin(1, _scope)
    trace.get_current_span().record_exception(MuteError())
    steps.finish()
    io_thread.flush_now()
    (event,) = recorded.span("rl.rank.step").events
    assert event.attributes["exception.message"] == "<exception str() failed>"


def test_a_failed_phase_keeps_neither_its_exception_nor_what_its_frames_hold(recorded, io_thread):
    class Tensor:
        """Stands for the memory that a frame of the program holds."""

    steps.begin(1, _scope)
    held: list[weakref.ref[Tensor]] = []

    def fail() -> None:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        with Phase(spans.RL_TRAIN, _scope):
            raise ExpectedError

    with pytest.raises(ExpectedError):
        fail()
    assert deferral.posted
    assert held[0]() is None
    steps.finish()
    io_thread.flush_now()
    failed = recorded.span("rl.train")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.attributes["error.type"].endswith("ExpectedError")


def test_a_flush_waits_for_what_another_io_thread_is_recording(io_thread):
    begun, goes_on, recorded_it, asked = (threading.Event() for _ in range(4))

    def recording():
        begun.set()
        assert goes_on.wait(60)
        recorded_it.set()

    other = IoThread("otel-rl-other")
    deferral.post("traces", recording)
    mine = io_thread.post(lambda: True, time.monotonic() + 60)
    assert begun.wait(60)
    assert not deferral.posted
    assert deferral.has_posts()
    other.chores.append(asked.set)
    its = other.post(recorded_it.is_set, time.monotonic() + 60)
    # Time enough for a thread that does not wait.
    asked.wait(0.2)
    goes_on.set()
    assert its.wait()
    assert mine.wait()
    LastDelivery(other, time.monotonic() + 60).wait()


def test_a_full_queue_is_drained_by_the_caller_and_nothing_is_lost(recorded, io_thread, monkeypatch):
    monkeypatch.setattr(deferral, "MAXIMUM", 4)
    release, stalled = threading.Event(), threading.Event()

    def stall() -> bool:
        stalled.set()
        return release.wait(60)

    io_thread.post(stall, time.monotonic() + 60)
    assert stalled.wait(60)
    found: list[int] = []
    for number in range(10):
        deferral.post("traces", lambda number=number: found.append(number))
    # The thread does not serve while it is stalled: whoever posts the fourth records all of them.
    assert found == list(range(8))
    release.set()
    io_thread.flush_now()
    assert found == list(range(10))


def test_where_no_thread_can_be_started_the_caller_records(recorded, io_thread, monkeypatch):
    monkeypatch.setattr(io_thread, "start", lambda: False)
    found: list[int] = []
    deferral.post("traces", lambda: found.append(1))
    assert found == [1]


def test_what_is_posted_at_a_fork_is_recorded_by_the_parent_only(recorded, io_thread):
    reading, writing = os.pipe()
    deferral.posted.append(("traces", os.getpid(), lambda: os.write(writing, b"x") and None))
    pid = os.fork()
    if pid == 0:
        deferral.release_child()
        deferral.drain_all()
        os._exit(0)
    os.waitpid(pid, 0)
    deferral.drain_all()
    os.close(writing)
    assert os.read(reading, 10) == b"x"


def test_a_thread_that_has_ended_is_started_again_by_the_next_post_whatever_waits(recorded, io_thread):
    found: list[int] = []
    deferral.posted.append(("traces", os.getpid(), lambda: found.append(0)))
    assert not io_thread.started
    deferral.post("traces", lambda: found.append(1))
    assert io_thread.started
    io_thread.flush_now()
    assert found == [0, 1]


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (sampling.DEFAULT_ON, True),
        (sampling.DEFAULT_OFF, True),
        (sampling.ParentBasedTraceIdRatio(0.5), True),
        (sampling.ALWAYS_ON, True),
        (sampling.TraceIdRatioBased(0.1), True),
        (sampling.ParentBased(sampling.ALWAYS_ON, local_parent_sampled=sampling.TraceIdRatioBased(0.5)), False),
        (type("Site", (sampling.Sampler,), {"should_sample": None, "get_description": None})(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_spans_are_posted_only_where_the_parent_decides_on_sampling(sampler, expected):
    assert _parent_decides(sampler) is expected


def test_a_full_queue_inside_the_sdk_drops_and_counts(recorded, io_thread, monkeypatch):
    monkeypatch.setattr(deferral, "MAXIMUM", 4)
    before = drops.snapshot().get(("traces", "deferral_full"), 0)
    found = []
    with deferral.inside_sdk():
        for number in range(6):
            deferral.post("traces", lambda number=number: found.append(number))
    io_thread.flush_now()
    assert found == [0, 1, 2, 3]
    assert drops.snapshot()["traces", "deferral_full"] == before + 2


def test_what_a_step_posts_after_a_post_was_dropped_is_recorded_while_it_is_open(recorded, io_thread, monkeypatch):
    made = []
    step = steps.begin(1, _scope)
    monkeypatch.setattr(deferral, "MAXIMUM", 0)
    with deferral.inside_sdk():
        step.post(lambda: made.append("first"))
    monkeypatch.undo()
    step.post(lambda: made.append("second"))
    io_thread.flush_now()
    assert made == ["first", "second"]
