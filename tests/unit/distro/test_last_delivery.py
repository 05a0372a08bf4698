"""The end of the process: tasks of one thread share the deadline, and one that hangs costs the others nothing."""

from __future__ import annotations

import threading
import time

import pytest
from last_delivery_clock import Clock

from otel_rl.core import threads
from otel_rl.pipeline import exporters, io_thread
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.sink import Sink
from otel_rl.telemetry import deferral, drops


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
        self.released.wait(60)
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


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def deliver(thread, clock, seconds=1.0, **options):
    LastDelivery(thread, clock.at(seconds), **options).wait()


def test_destination_that_hangs_for_the_first_time_costs_no_other_signal(thread, hanging, clock):
    working = [Working(), Working()]
    queues = [
        queue(thread, signal, exporter, "log") for signal, exporter in zip(("metrics", "logs"), working, strict=True)
    ]
    # The queue made last is the first that is asked.
    hung = queue(thread, "traces", hanging, "span 1", "span 2")
    # Beyond its share, and once the others are served beyond the deadline.
    clock.jump(hanging.begun.is_set, 0.5)
    clock.jump(lambda: all(exporter.closed.is_set() for exporter in working), 1.1)

    deliver(thread, clock, may_hand_over=True)

    assert [exporter.batches for exporter in working] == [[["log"]], [["log"]]]
    assert all(exporter.closed.is_set() for exporter in working)
    assert [one.sink.lost for one in (*queues, hung)] == [0, 0, 2]
    assert drops.snapshot() == {("traces", "exit_timeout"): 2}


def test_two_destinations_that_hang_cost_no_third(thread, hanging, clock):
    working, second = Working(), Hanging()
    queue(thread, "logs", working, "log")
    queue(thread, "metrics", second, "point")
    queue(thread, "traces", hanging, "span")
    clock.jump(hanging.begun.is_set, 0.5)
    clock.jump(second.begun.is_set, 0.9)
    clock.jump(working.closed.is_set, 1.1)

    deliver(thread, clock, may_hand_over=True)
    second.released.set()

    assert working.batches == [["log"]]


def test_destination_that_hangs_already_when_the_process_ends_costs_no_other_signal(thread, hanging, clock):
    working = Working()
    logs = queue(thread, "logs", working)
    hung = queue(thread, "traces", hanging, "span", delay=0.001)
    assert hanging.begun.wait(60)
    logs.emit("log")
    clock.jump(lambda: clock.was_read_at(0), 0.6)
    clock.jump(working.closed.is_set, 1.1)

    deliver(thread, clock, may_hand_over=True)

    assert working.batches == [["log"]]
    assert (logs.sink.lost, hung.sink.lost) == (0, 1)


def test_slow_destination_gets_the_time_that_the_others_leave(thread, hanging, clock):
    class ReleasesTheOther(Working):
        def shutdown(self):
            super().shutdown()
            hanging.released.set()

    working = ReleasesTheOther()
    queue(thread, "logs", working, "log")
    slow = queue(thread, "traces", hanging, "span")
    clock.jump(hanging.begun.is_set, 0.6)

    deliver(thread, clock, may_hand_over=True)

    assert hanging.batches == [["span"]]
    assert slow.sink.lost == 0


def test_two_threads_never_write_files_at_once(thread, hanging, clock):
    working, finished = Working(), threading.Event()
    queue(thread, "logs", working, "log")
    queue(thread, "traces", hanging, "span")
    clock.jump(hanging.begun.is_set, 0.6)
    clock.jump(lambda: clock.was_read_at(0.6), 1.1)

    deliver(thread, clock, finish=finished.set)
    assert working.batches == []
    hanging.released.set()

    assert finished.wait(60)
    assert len({*working.threads, *hanging.threads}) == 1


def test_refused_thread_is_asked_for_once_per_signal(thread, hanging, clock, monkeypatch):
    asked = []

    def refuse(*_):
        asked.append(1)
        raise RuntimeError("can't start new thread")

    queue(thread, "metrics", Working(), "point")
    logs = queue(thread, "logs", Working(), "log")
    queue(thread, "traces", hanging, "span")
    monkeypatch.setattr(io_thread, "start_new_thread", refuse)
    for number in range(20):
        clock.jump(lambda number=number: hanging.begun.is_set() and clock.was_read_at(number / 20), (number + 1) / 20)

    deliver(thread, clock, may_hand_over=True)

    assert len(asked) == 2
    assert logs.sink.lost == 1


def test_what_is_recorded_after_a_delivery_that_hung_is_delivered(thread, hanging, clock):
    working = Working()
    logs = queue(thread, "logs", working, "log")
    queue(thread, "traces", hanging, "span")
    clock.jump(hanging.begun.is_set, 1.1)
    deliver(thread, clock, may_hand_over=True)
    hanging.released.set()
    thread.join(time.monotonic() + 60)

    logs.emit("late")
    deliver(thread, clock, 2, may_hand_over=True)

    assert working.batches[-1] == ["late"]


def test_import_of_an_exporter_that_outlasts_the_deadline_costs_no_data(thread, clock):
    exporter, begun = Working(), threading.Event()

    def imports():
        with exporters.opening:
            begun.set()
            # As from a slow disk: until the delivery has seen that its deadline has passed.
            while not clock.was_read_at(2):
                time.sleep(0.001)
            return exporter

    made = BatchQueue(Sink("traces", Destination("test", "there"), imports), thread, Gate(), Limits(delay=60.0))
    second = queue(thread, "logs", Working(), "log")
    made.emit("span")
    clock.jump(begun.is_set, 2)
    deliver(thread, clock, latest=clock.at(30), may_hand_over=True)

    assert exporter.batches == [["span"]]
    assert (made.sink.lost, second.sink.lost) == (0, 0)


def test_import_that_does_not_end_is_given_up(thread, clock):
    begun, release = threading.Event(), threading.Event()

    def imports():
        with exporters.opening:
            begun.set()
            release.wait(60)
            return Working()

    made = BatchQueue(Sink("traces", Destination("test", "there"), imports), thread, Gate(), Limits(delay=60.0))
    made.emit("span")
    clock.jump(begun.is_set, 2)
    clock.jump(lambda: clock.was_read_at(2), 31)
    deliver(thread, clock, latest=clock.at(30))
    lost = made.sink.lost
    release.set()
    thread.join(time.monotonic() + 60)

    assert clock.was_read_at(31)
    assert lost == 1


def test_slow_files_that_make_progress_are_written_to_the_end(thread, clock):
    class Slow(Working):
        written = clock.at(0)

        def export(self, batch):
            # Each batch ends after the deadline, and before the patience since the one before is over.
            clock.jump(lambda: True, seconds := clock.seconds + 5)
            while not clock.was_read_at(seconds):
                time.sleep(0.001)
            self.written = clock.now()
            return super().export(batch)

    exporter = Slow()
    slow = queue(thread, "traces", exporter, *range(6), batch=1)
    deliver(thread, clock, progress=lambda: exporter.written, patience=10, longest=clock.at(60))

    assert exporter.batches == [[number] for number in range(6)]
    assert slow.sink.lost == 0


def test_files_without_progress_are_given_up_after_their_patience(thread, hanging, clock):
    hung = queue(thread, "traces", hanging, "span")
    clock.jump(hanging.begun.is_set, 9)
    clock.jump(lambda: clock.was_read_at(9), 11)
    deliver(thread, clock, progress=lambda: clock.at(0), patience=10, longest=clock.at(60))

    assert clock.was_read_at(11)
    assert hung.sink.lost == 1


@pytest.fixture
def ending(monkeypatch):
    """The interpreter starts no thread any more."""

    def refuse(*_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threads, "interpreter_is_ending", False)
    return lambda: monkeypatch.setattr(threads, "_start", refuse)


def test_interpreter_that_starts_no_thread_has_its_tasks_delivered_in_place_and_once(thread, clock, ending):
    ending()
    working = [Working(), Working()]
    for signal, exporter in zip(("metrics", "logs"), working, strict=True):
        queue(thread, signal, exporter, signal)

    deliver(thread, clock, may_hand_over=True)
    deliver(thread, clock, 2, may_hand_over=True)

    assert [exporter.batches for exporter in working] == [[["metrics"]], [["logs"]]]
    assert {*working[0].threads, *working[1].threads} == {threading.get_ident()}
    assert all(exporter.closed.is_set() for exporter in working)
    assert not thread.started


def test_successor_of_a_thread_that_hangs_works_in_place_where_none_can_start(thread, hanging, clock, ending):
    working = [Working(), Working()]
    for signal, exporter in zip(("metrics", "logs"), working, strict=True):
        queue(thread, signal, exporter, signal)
    hung = queue(thread, "traces", hanging, "span")
    ending()
    clock.jump(hanging.begun.is_set, 0.5)
    clock.jump(lambda: all(exporter.closed.is_set() for exporter in working), 1.1)

    deliver(thread, clock, may_hand_over=True)

    assert [exporter.batches for exporter in working] == [[["metrics"]], [["logs"]]]
    assert hung.sink.lost == 1


def test_request_from_within_the_sdk_is_refused_where_no_thread_can_start(thread, ending):
    """As a signal handler that interrupts the SDK: the work could wait for a lock that this thread has."""
    ending()
    with deferral.inside_sdk():
        request = thread.post(lambda: True, time.monotonic() + 3600)

    assert request.refused
    assert not request.wait()
    assert thread.post(lambda: True, time.monotonic() + 3600).wait()


def test_requests_of_several_threads_are_each_served_once_where_no_thread_can_start(thread, ending):
    ending()
    served = []
    results = [None] * 8

    def ask(number):
        results[number] = [thread.post(lambda: not served.append(1), time.monotonic() + 60).wait() for _ in range(50)]

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()

    assert all(all(result) for result in results)
    assert len(served) == 400
    assert not thread.started
