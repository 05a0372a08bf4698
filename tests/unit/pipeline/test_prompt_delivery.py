"""What is new leaves with the end of a call, as often as is worth its cost; where nothing is new, nothing happens."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider

from otel_rl.pipeline import prompt_delivery
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.metric_reader import LazyMetricReader, wake_at_first_measurement
from otel_rl.pipeline.prompt_delivery import PromptDelivery
from otel_rl.pipeline.sink import Sink


class Exporter:
    """Keeps what it gets."""

    def __init__(self):
        self.batches = []

    def export(self, batch, **_):
        self.batches.append(batch)
        return SimpleNamespace(name="SUCCESS")

    def shutdown(self):
        """Nothing is open."""


class Process:
    """A real I/O thread with a queue of spans and a reader of metrics, whose own exports are far away."""

    def __init__(self):
        self.thread, self.other, self.gate = IoThread("otel-rl-test"), IoThread("otel-rl-other"), Gate()
        self.gate.force_open()
        self.spans, self.metrics = Exporter(), Exporter()
        there = Destination("otlp_proto_http", "http://there")
        self.queue = BatchQueue(Sink("traces", there, lambda: self.spans), self.thread, self.gate, Limits(delay=600.0))
        sink = Sink("metrics", there, lambda: self.metrics, lambda _: 1)
        self.reader = LazyMetricReader(sink, self.thread, self.gate, 600.0)
        self.meter_provider = MeterProvider([self.reader], shutdown_on_exit=False)
        wake_at_first_measurement(self.meter_provider, self.reader.wake)
        self.counter = self.meter_provider.get_meter("test").create_counter("calls")
        self.queues, self.readers, self.threads = [self.queue], [self.reader], (self.thread, self.other)
        self.delivery = PromptDelivery(self)

    def call(self, *, span=True, measurement=True, seconds=0.0):
        """End a call that has recorded something; return whether what is new has left."""
        if span:
            self.queue.emit("a span")
        if measurement:
            self.counter.add(1)
        requested = self.delivery.request(seconds)
        return bool(requested) and all(request.wait() for request in requested)


@pytest.fixture
def process(monkeypatch):
    # A machine under load may take longer than a call may wait.
    monkeypatch.setattr(prompt_delivery, "LONGEST_WAIT", 60.0)
    made = Process()
    yield made
    LastDelivery(made.thread, time.monotonic() + 60).wait()


def test_what_a_call_has_recorded_has_left_when_it_ends(process):
    assert process.call()
    assert process.spans.batches == [["a span"]]
    assert len(process.metrics.batches) == 1


def test_a_call_with_nothing_new_asks_for_nothing(process):
    process.call()
    process.delivery._delivered = process.delivery._collected = 0.0
    assert process.delivery.request(0.0) == []


def test_a_process_that_has_recorded_nothing_starts_no_thread(process):
    assert process.delivery.request(0.0) == []
    assert not process.thread.started


def test_a_measurement_alone_is_new(process):
    process.call()
    process.delivery._delivered = process.delivery._collected = 0.0
    assert process.call(span=False)
    assert len(process.metrics.batches) == 2


def test_calls_that_follow_quickly_leave_it_to_the_thread_which_soon_delivers(process):
    assert process.call()
    # As if it had been just now, however long the call took on this machine.
    process.delivery._delivered = time.monotonic()
    assert not process.call()
    limit = time.monotonic() + 60
    while len(process.spans.batches) < 2 and time.monotonic() < limit:
        process.thread.post(lambda: True, limit).wait()
    assert process.spans.batches == [["a span"], ["a span"]]


def test_a_long_call_waits_however_soon_it_comes_after_another_that_took_long_to_deliver(process):
    assert process.call()
    process.delivery._delivered, process.delivery._interval = time.monotonic(), 10.0
    assert not process.call(seconds=9.0)
    assert process.call(seconds=60.0)
    assert sum(map(len, process.spans.batches)) == 3


@pytest.mark.parametrize(("seconds", "longest"), [(0.0, 0.05), (4.0, 0.05), (20.0, 0.2), (36_000.0, 1.0)])
def test_a_call_waits_for_a_share_of_its_own_time(process, monkeypatch, seconds, longest):
    monkeypatch.setattr(prompt_delivery, "LONGEST_WAIT", 0.05)
    process.queue.emit("a span")
    before = time.monotonic()
    (request,) = process.delivery.request(seconds)
    assert before + longest <= request._deadline <= time.monotonic() + longest
    request._deadline += 60
    request.wait()


def test_the_first_calls_of_a_worker_wait_and_those_of_a_busy_one_ever_less_often(process, monkeypatch):
    # How long a delivery takes on a busy machine is no part of what is tested.
    monkeypatch.setattr(prompt_delivery, "_PAUSE", 0)
    assert process.call()
    assert process.delivery._interval < prompt_delivery._INTERVAL / 2
    for _ in range(8):
        process.delivery._delivered = time.monotonic() - process.delivery._interval
        assert process.call()
    assert process.delivery._interval >= prompt_delivery._INTERVAL


def test_calls_ask_nothing_of_a_thread_that_is_still_at_what_it_was_asked_for(process):
    may_go_on = threading.Event()
    process.spans.export = lambda *_, **__: may_go_on.wait(60)
    process.queue.emit("a span")
    (first,) = process.delivery.request(0.0)
    process.delivery._delivered = 0.0
    process.queue.emit("a span")
    assert process.delivery.request(0.0) == []
    may_go_on.set()
    first.wait()


def test_metrics_which_a_collection_repeats_leave_less_often_than_spans(process):
    assert process.call()
    process.delivery._delivered, process.delivery._collected = 0.0, time.monotonic()
    assert process.call()
    assert len(process.spans.batches) == 2
    assert len(process.metrics.batches) == 1
    assert process.reader.next_run() <= process.delivery._collected + prompt_delivery._METRICS_INTERVAL
