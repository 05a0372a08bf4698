"""An outage of the destination: what it refused waits in order, within bounds, and nothing is lost silently."""

from __future__ import annotations

import time
from collections import deque
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality

from otel_rl.pipeline import outage
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.metric_reader import LazyMetricReader, count_points
from otel_rl.pipeline.otlp_answer import ACCEPTED, OtlpAnswer, Outcome
from otel_rl.pipeline.sink import Sink
from otel_rl.telemetry import drops

OUTAGE = OtlpAnswer(Outcome.RETRY, reason="code: 503")
REFUSED = OtlpAnswer(Outcome.REFUSED, reason="code: 404")
SILENCE = OtlpAnswer(Outcome.UNANSWERED, reason="timed out")

pytestmark = pytest.mark.usefixtures("no_drops_or_outages")


class Result:
    name = "SUCCESS"


class Answering:
    """Gives the answers in turn, the last one again and again; keeps what was accepted."""

    def __init__(self, *answers):
        self._answers = deque(answers)
        self.accepted = []
        self.attempts = 0

    def export(self, batch, **_):
        self.attempts += 1
        self.answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        if self.answer.is_acceptance:
            self.accepted.append(batch)
        return Result()

    def shutdown(self):
        """Nothing is open."""

    @property
    def items(self):
        return [item for batch in self.accepted for item in batch]


class Kept:
    """Stands for the run's files."""

    def __init__(self, *, has_room=True):
        self.batches, self.unanswered, self._has_room = [], [], has_room

    def __call__(self, sink, data, *, unanswered):
        if self._has_room:
            self.batches.append(list(data))
            self.unanswered.append(unanswered)
        return self._has_room

    @property
    def items(self):
        return [item for batch in self.batches for item in batch]


@pytest.fixture
def thread():
    return IoThread("otel-rl-test")


def queue(thread, exporter, keep=None, **limits):
    gate = Gate()
    gate.force_open()
    sink = Sink("traces", Destination("otlp_proto_http", "http://there"), lambda: exporter)
    sink.keep = keep or Kept()
    made = BatchQueue(sink, thread, gate, Limits(**{"delay": 60.0, **limits}))
    # Run by the test.
    thread.start = lambda: True
    return made


def test_a_refused_batch_is_sent_again_before_what_came_later(thread):
    exporter = Answering(ACCEPTED, OUTAGE, OUTAGE, ACCEPTED)
    line = queue(thread, exporter, batch=2)
    for item in range(6):
        line.emit(item)
    for _ in range(3):
        line.flush(time.monotonic() + 60)
        line.emit(6)
    line.flush(time.monotonic() + 60)

    assert exporter.items == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    assert (line.sink.delivered, line.sink.lost, line.sink.kept, line.processed) == (9, 0, 0, 9)


def test_attempts_during_an_outage_are_seconds_apart_however_much_is_recorded(thread):
    exporter = Answering(OUTAGE)
    line = queue(thread, exporter, batch=2)
    for item in range(100):
        line.emit(item)
        line.run()

    assert exporter.attempts == 1
    assert line.next_run() > time.monotonic()
    assert line.left == 100


def test_after_an_outage_all_that_has_waited_is_sent_at_once(thread):
    exporter = Answering(OUTAGE, ACCEPTED)
    line = queue(thread, exporter, batch=2)
    for item in range(10):
        line.emit(item)
    line.run()
    line._next = time.monotonic()
    while line.left and line.next_run() <= time.monotonic():
        line.run()

    assert exporter.items == list(range(10))


def test_after_a_long_outage_the_next_attempt_is_due_within_a_minute(thread):
    line = queue(thread, Answering(OUTAGE))
    line.emit(1)
    for _ in range(20):
        line._next = time.monotonic()
        line.run()

    assert line.next_run() < time.monotonic() + 60


def test_a_destination_that_asks_to_wait_is_not_asked_sooner(thread):
    line = queue(thread, Answering(OtlpAnswer(Outcome.RETRY, reason="code: 429", retry_after=20)))
    line.emit(1)
    line.flush(time.monotonic() + 60)

    assert line.next_run() > time.monotonic() + 15


@pytest.mark.parametrize("has_room", [True, False])
def test_a_queue_that_fills_up_gives_its_oldest_items_to_files_or_counts_them(thread, has_room):
    keep = Kept(has_room=has_room)
    line = queue(thread, Answering(OUTAGE), keep, queue=40, batch=10)
    for item in range(200):
        line.emit(item)
        line.run()

    assert line.left <= 40
    assert line.refused == 0
    if has_room:
        assert keep.items == list(range(200 - line.left))
        assert drops.snapshot() == {}
    else:
        assert drops.snapshot() == {("traces", "queue_full"): 200 - line.left}


def test_what_is_refused_or_not_answered_is_kept_at_once_and_told_apart(thread):
    keep = Kept()
    line = queue(thread, Answering(REFUSED, SILENCE, ACCEPTED), keep)
    for item in ("refused", "silent", "accepted"):
        line.emit(item)
        line.flush(time.monotonic() + 60)

    assert keep.batches == [["refused"], ["silent"]]
    assert keep.unanswered == [False, True]
    assert (line.sink.delivered, line.sink.kept, line.sink.unanswered, line.sink.lost) == (1, 2, 1, 0)
    assert line.sink.loss_reason == "timed out"


def test_a_short_outage_is_worth_no_line_and_a_long_one_is(thread, capsys, monkeypatch):
    line = queue(thread, Answering(OUTAGE))
    line.emit(1)
    line.flush(time.monotonic() + 60)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(outage, "SHORT", 0.0)
    line.flush(time.monotonic() + 60)

    assert "refuses what is sent (code: 503): what is recorded waits and is sent again" in capsys.readouterr().err


def test_a_flush_of_metrics_waits_as_many_milliseconds_as_it_is_given(thread):
    asked = []
    thread.post = lambda work, deadline: (
        asked.append(deadline - time.monotonic()) or SimpleNamespace(wait=lambda: False)
    )
    sink = Sink("metrics", Destination("otlp_proto_http", "there"), lambda: Answering(ACCEPTED), count_points)
    reader = LazyMetricReader(sink, thread, Gate(), 60.0)
    MeterProvider([reader], shutdown_on_exit=False).get_meter("t").create_counter("made").add(1)
    reader.wake()

    assert reader.force_flush(2_000) is False
    assert 0 < asked[0] <= 2


def test_the_end_during_an_outage_leaves_everything_to_the_files():
    thread, keep = IoThread("otel-rl-test"), Kept()
    line = queue(thread, Answering(OUTAGE), keep, batch=2)
    del thread.start
    for item in range(5):
        line.emit(item)
    LastDelivery(thread, time.monotonic() + 60, may_hand_over=True).wait()

    assert sorted(keep.items) == list(range(5))
    assert not any(keep.unanswered)
    assert drops.snapshot() == {}


@pytest.mark.parametrize(
    ("temporality", "values"), [(AggregationTemporality.DELTA, [1, 1, 1]), (AggregationTemporality.CUMULATIVE, [3])]
)
def test_collections_of_deltas_wait_and_sums_hold_those_before_them(thread, temporality, values):
    exporter = Answering(OUTAGE, OUTAGE, ACCEPTED)
    sink = Sink("metrics", Destination("otlp_proto_http", "there"), lambda: exporter, count_points)
    gate = Gate()
    gate.force_open()
    thread.start = lambda: True
    reader = LazyMetricReader(sink, thread, gate, 60.0, preferred_temporality={Counter: temporality})
    counter = MeterProvider([reader], shutdown_on_exit=False).get_meter("t").create_counter("made")
    reader.wake()
    for _ in range(3):
        counter.add(1)
        reader.flush(time.monotonic() + 60)

    points = [
        point.value
        for data in exporter.accepted
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    assert points == values
    assert (sink.lost, sink.kept) == (0, 0)
