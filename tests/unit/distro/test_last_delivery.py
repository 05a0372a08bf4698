"""The end of the process: tasks of one thread share the deadline, and one that hangs costs the others nothing."""

from __future__ import annotations

import threading
import time

import pytest

from otel_rl.pipeline import exporters, io_thread
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.sink import Sink
from otel_rl.telemetry import drops


class Success:
    name = "SUCCESS"


class Working:
    """Delivers; says on which threads."""

    def __init__(self):
        self.batches, self.threads, self.closed = [], [], threading.Event()

    def export(self, batch):
        self.batches.append(list(batch))
        self.threads.append(threading.get_ident())
        return Success()

    def shutdown(self):
        self.closed.set()


class Hanging(Working):
    """Delivers when it is released."""

    def __init__(self):
        super().__init__()
        self.begun, self.released = threading.Event(), threading.Event()

    def export(self, batch):
        self.begun.set()
        self.released.wait(30)
        return super().export(batch)


@pytest.fixture(autouse=True)
def nothing_dropped():
    drops.reset()
    yield
    drops.reset()


@pytest.fixture
def thread():
    return IoThread("otel-rl-test")


@pytest.fixture
def hanging():
    exporter = Hanging()
    yield exporter
    exporter.released.set()


def queue(thread, signal, exporter, *items, **limits):
    gate = Gate()
    gate.force_open()  # whatever other tests have left of an identity
    made = BatchQueue(
        Sink(signal, Destination("test", signal), lambda: exporter),
        thread,
        gate,
        Limits(**{"delay": 60.0, **limits}),
    )
    for item in items:
        made.emit(item)
    return made


def deliver(thread, seconds=1.0, **options):
    LastDelivery(thread, time.monotonic() + seconds, **options).wait()


def test_destination_that_hangs_for_the_first_time_costs_no_other_signal(thread, hanging):
    working = [Working(), Working()]
    queues = [
        queue(thread, signal, exporter, "log") for signal, exporter in zip(("metrics", "logs"), working, strict=True)
    ]
    # The queue made last is the first that is asked.
    hung = queue(thread, "traces", hanging, "span 1", "span 2")

    deliver(thread, may_hand_over=True)

    assert [exporter.batches for exporter in working] == [[["log"]], [["log"]]]
    assert all(exporter.closed.is_set() for exporter in working)
    assert [one.sink.lost for one in (*queues, hung)] == [0, 0, 2]
    assert drops.snapshot() == {("traces", "exit_timeout"): 2}


def test_two_destinations_that_hang_cost_no_third(thread, hanging):
    working, second = Working(), Hanging()
    queue(thread, "logs", working, "log")
    queue(thread, "metrics", second, "point")
    queue(thread, "traces", hanging, "span")

    deliver(thread, may_hand_over=True)
    second.released.set()

    assert working.batches == [["log"]]


def test_destination_that_hangs_already_when_the_process_ends_costs_no_other_signal(thread, hanging):
    working = Working()
    logs = queue(thread, "logs", working)
    hung = queue(thread, "traces", hanging, "span", delay=0.001)
    assert hanging.begun.wait(10)
    logs.emit("log")

    deliver(thread, may_hand_over=True)

    assert working.batches == [["log"]]
    assert (logs.sink.lost, hung.sink.lost) == (0, 1)


def test_slow_destination_gets_the_time_that_the_others_leave(thread, hanging):
    class ReleasesTheOther(Working):
        def shutdown(self):
            super().shutdown()
            hanging.released.set()

    working = ReleasesTheOther()
    queue(thread, "logs", working, "log")
    slow = queue(thread, "traces", hanging, "span")

    deliver(thread, 3, may_hand_over=True)

    assert hanging.batches == [["span"]]
    assert slow.sink.lost == 0


def test_two_threads_never_write_files_at_once(thread, hanging):
    working, finished = Working(), threading.Event()
    queue(thread, "logs", working, "log")
    queue(thread, "traces", hanging, "span")

    deliver(thread, 0.2, finish=finished.set)
    assert working.batches == []
    hanging.released.set()

    assert finished.wait(10)
    assert len({*working.threads, *hanging.threads}) == 1


def test_refused_thread_is_asked_for_once_per_signal(thread, hanging, monkeypatch):
    asked = []

    def refuse(*_):
        asked.append(1)
        raise RuntimeError("can't start new thread")

    queue(thread, "metrics", Working(), "point")
    logs = queue(thread, "logs", Working(), "log")
    queue(thread, "traces", hanging, "span")
    monkeypatch.setattr(io_thread, "start_new_thread", refuse)

    deliver(thread, may_hand_over=True)

    assert len(asked) == 2
    assert logs.sink.lost == 1


def test_what_is_recorded_after_a_delivery_that_hung_is_delivered(thread, hanging):
    working = Working()
    logs = queue(thread, "logs", working, "log")
    queue(thread, "traces", hanging, "span")
    deliver(thread, 0.2, may_hand_over=True)
    hanging.released.set()
    thread.join(time.monotonic() + 10)

    logs.emit("late")
    deliver(thread, 10, may_hand_over=True)

    assert working.batches[-1] == ["late"]


def test_import_of_an_exporter_that_outlasts_the_deadline_costs_no_data(thread):
    exporter, started = Working(), time.monotonic()

    def imports():
        with exporters.opening:
            # As from a slow disk: until the deadline of 0.2 s has passed for sure.
            while time.monotonic() < started + 0.5:
                time.sleep(0.01)
            return exporter

    made = BatchQueue(Sink("traces", Destination("test", "there"), imports), thread, Gate(), Limits(delay=60.0))
    second = queue(thread, "logs", Working(), "log")
    made.emit("span")
    LastDelivery(thread, started + 0.2, latest=started + 30, may_hand_over=True).wait()

    assert exporter.batches == [["span"]]
    assert (made.sink.lost, second.sink.lost) == (0, 0)


def test_import_that_does_not_end_is_given_up(thread):
    release, now = threading.Event(), time.monotonic()

    def imports():
        with exporters.opening:
            release.wait(30)
            return Working()

    made = BatchQueue(Sink("traces", Destination("test", "there"), imports), thread, Gate(), Limits(delay=60.0))
    made.emit("span")
    LastDelivery(thread, now + 0.1, latest=now + 0.3).wait()
    lost = made.sink.lost
    release.set()
    thread.join(time.monotonic() + 10)

    assert lost == 1


def test_slow_files_that_make_progress_are_written_to_the_end(thread):
    class Slow(Working):
        written = 0.0

        def export(self, batch):
            # Each batch ends after the deadline, or after the time since the batch before it.
            while time.monotonic() < max(started, self.written) + 0.15:
                time.sleep(0.01)
            self.written = time.monotonic()
            return super().export(batch)

    exporter, started = Slow(), time.monotonic()
    slow = queue(thread, "traces", exporter, *range(6), batch=1)
    LastDelivery(thread, started + 0.2, progress=lambda: exporter.written, patience=10, longest=started + 60).wait()

    assert exporter.batches == [[number] for number in range(6)]
    assert slow.sink.lost == 0


def test_files_without_progress_are_given_up_after_their_patience(thread, hanging):
    written, started = time.monotonic(), time.monotonic()
    hung = queue(thread, "traces", hanging, "span")
    LastDelivery(thread, started + 0.1, progress=lambda: written, patience=0.3, longest=started + 60).wait()

    assert time.monotonic() - started < 30
    assert hung.sink.lost == 1
