"""The queue between the program and an exporter: never blocks, never grows, never loses silently."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from last_delivery_clock import Clock
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from otel_rl.pipeline import exporter_selection, io_thread, providers, sdk_logging
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.processors import weight
from otel_rl.pipeline.sink import Sink
from otel_rl.process import process_identity
from otel_rl.store.writer.process_store import ProcessStore
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import PlainBody

pytestmark = pytest.mark.usefixtures("no_drops_or_outages")


class Result:
    name = "SUCCESS"


class Failure:
    name = "FAILURE"


class Exporter:
    counts_drops = False

    def __init__(self, result=Result, block=None):
        self.batches = []
        self.closed = False
        self.called = threading.Event()
        self._result = result
        self._block = block

    def export(self, batch):
        self.batches.append(list(batch))
        self.called.set()
        if self._block is not None:
            self._block.wait(60)
        return self._result()

    def shutdown(self):
        self.closed = True


class Line:
    """A queue with its thread and its exporter."""

    def __init__(self, opens, **limits):
        self.thread = IoThread("otel-rl-test")
        self.sink = Sink("traces", Destination("test", "http://there"), opens)
        self.queue = BatchQueue(self.sink, self.thread, Gate(), Limits(**{"delay": 60.0, **limits}))

    def close(self, seconds=60.0):
        """As at the end of the process."""
        LastDelivery(self.thread, time.monotonic() + seconds, may_hand_over=True).wait()


def make(exporter, **limits):
    return Line(lambda: exporter, **limits)


def test_a_batch_is_full_by_the_weight_of_its_items_however_few_wait():
    exporter = Exporter()
    line = make(exporter, batch=100)
    line.queue = BatchQueue(line.sink, line.thread, Gate(), line.queue.limits, weigh=lambda _: 40)
    for number in range(4):
        line.queue.emit(number)
    line.queue.flush(time.monotonic() + 60)

    assert exporter.batches == [[0, 1, 2], [3]]
    line.close()


def test_no_thread_before_the_first_item():
    line = make(Exporter())

    assert not line.thread.started
    assert not line.thread.needed


def test_items_arrive_in_order_and_in_batches_and_the_exporter_is_closed():
    exporter = Exporter()
    line = make(exporter, batch=3)
    for number in range(7):
        line.queue.emit(number)
    line.close()

    assert [item for batch in exporter.batches for item in batch] == list(range(7))
    assert max(map(len, exporter.batches)) <= 3
    assert exporter.closed
    assert (line.sink.delivered, line.sink.lost) == (7, 0)


def test_large_items_fill_a_batch_sooner_and_none_is_lost():
    exporter = Exporter()
    line = make(exporter, batch=4)
    line.queue = BatchQueue(
        line.sink, line.thread, Gate(), line.queue.limits, weigh=lambda item: 3 if item % 2 == 0 else 1
    )
    for number in range(20):
        line.queue.emit(number)
    assert line.queue.force_flush(60)
    line.close()

    assert [item for batch in exporter.batches for item in batch] == list(range(20))
    # At most one large item begins where there is room for a small one.
    assert max(sum(3 if item % 2 == 0 else 1 for item in batch) for batch in exporter.batches) <= 6


def test_a_record_of_many_rows_counts_as_many_records():
    body = PlainBody(rows=[1])
    record = ReadableLogRecord(LogRecord(body=body), Resource.get_empty())
    assert weight(record) == 1
    body.characters = 200_000
    assert 2 * weight(record) > Limits().batch
    assert weight(ReadableLogRecord(LogRecord(body="text"), Resource.get_empty())) == 1


def test_large_records_count_as_many_in_the_queue_of_the_logs(monkeypatch):
    monkeypatch.setattr(providers.run_span, "touch", lambda: None)
    thread = SimpleNamespace(tasks=[], chores=[], spare_time=[], started=True, wake=lambda: None)
    resource = Resource.get_empty()
    telemetry = providers.Telemetry(
        ProcessStore(resource),
        tracer_provider=TracerProvider(shutdown_on_exit=False),
        logger_provider=LoggerProvider(resource, shutdown_on_exit=False),
        files=thread,
    )
    exported = {"traces": (), "metrics": (), "logs": (exporter_selection.FILE,)}
    providers._add_processors(telemetry, exporter_selection.Plan(exported))
    [queue] = telemetry.queues
    batches = []
    queue.sink.export = batches.append
    telemetry.gate.force_open()
    body = PlainBody(rows=[1])
    body.characters = 200_000
    logger = telemetry.logger_provider.get_logger("test")
    for _ in range(6):
        logger.emit(LogRecord(body=body))
    queue.run()
    assert 0 < len(batches[0]) < 6


def test_full_queue_drops_the_new_item_and_counts_it():
    release = threading.Event()
    line = make(Exporter(block=release), queue=4, batch=4)
    for number in range(20):
        line.queue.emit(number)
    release.set()
    line.close()

    assert line.sink.delivered + drops.snapshot()["traces", "queue_full"] == 20


def test_refused_batches_are_counted_and_told_once_with_what_to_do(capsys):
    line = make(Exporter(Failure))
    for _ in range(3):
        line.queue.emit(1)
        assert not line.queue.force_flush(60)

    assert drops.snapshot() == {("traces", "export_failed"): 3}
    assert line.sink.lost == 3
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("otel-rl: nothing reaches http://there")
    assert "check that a collector answers there" in told


def test_exporter_that_hangs_costs_the_deadline_and_what_is_left_is_counted():
    release = threading.Event()
    exporter = Exporter(block=release)
    line = make(exporter)
    for number in range(3):
        line.queue.emit(number)
    line.close(0.2)

    assert not release.is_set()
    assert drops.snapshot() == {("traces", "exit_timeout"): 3}
    assert line.sink.lost == 3
    assert line.sink.reason == "no answer in time"
    release.set()


def test_exporter_that_cannot_be_opened_is_counted_named_and_opened_later(capsys):
    exporter = Exporter()
    refusals = [OSError(24, "Too many open files")]

    def opens():
        if refusals:
            raise refusals.pop()
        return exporter

    line = Line(opens)
    line.queue.emit(1)
    assert not line.queue.force_flush(60)
    assert drops.snapshot() == {("traces", "not_opened"): 1}
    told = capsys.readouterr().err
    assert "Too many open files" in told
    assert "the exporter test could not be opened in this process" in told
    line.queue.emit(2)
    assert line.queue.force_flush(60)
    assert exporter.batches == [[2]]


def test_exporter_that_raises_costs_its_batch_only():
    class Raising(Exporter):
        def export(self, batch):
            super().export(batch)
            if batch == ["bad"]:
                raise ConnectionError("reset")
            return Result()

    line = make(Raising())
    line.queue.emit("bad")
    assert not line.queue.force_flush(60)
    line.queue.emit("good")
    assert line.queue.force_flush(60)
    assert (line.sink.delivered, line.sink.lost) == (1, 1)


def test_flush_gives_up_after_its_time_and_the_delivery_goes_on():
    release = threading.Event()
    exporter = Exporter(block=release)
    line = make(exporter)
    line.queue.emit(1)

    assert not line.queue.force_flush(0.05)
    release.set()
    assert line.queue.force_flush(60)
    assert line.sink.delivered == 1


def test_flush_does_not_wait_for_what_is_added_meanwhile():
    exporter = Exporter()
    line = make(exporter, batch=1)
    added = []

    def export(batch, export=exporter.export):
        if len(added) < 1000:
            added.append(1)
            line.queue.emit("more")
        return export(batch)

    exporter.export = export
    line.queue.emit("first")
    assert line.queue.flush(time.monotonic() + 60)
    assert exporter.batches[0] == ["first"]
    assert line.queue.left >= 1


def test_other_signals_and_requests_have_their_turn_between_two_batches():
    order, begun, release = [], threading.Event(), threading.Event()
    line = make(Exporter(), batch=1)

    def queue(signal):
        exporter = Exporter()
        exporter.export = lambda batch: order.append(batch[0]) or Result()
        return BatchQueue(
            Sink(signal, Destination("test", signal), lambda: exporter), line.thread, Gate(), Limits(batch=1)
        )

    logs, traces = queue("logs"), queue("traces")
    deadline = time.monotonic() + 60
    line.thread.post(lambda: begun.set() or release.wait(60), deadline)
    assert begun.wait(60)
    for item in ("span 1", "span 2", "span 3"):
        traces.emit(item)
    logs.emit("log record")
    release.set()
    assert line.thread.post(lambda: order.append("request") or True, deadline).wait()
    line.close()

    assert order.index("log record") < order.index("span 2")
    assert order.index("request") < order.index("span 3")


def test_destination_that_hangs_does_not_cost_the_last_delivery_of_the_others(monkeypatch):
    order, release, clock = [], threading.Event(), Clock(monkeypatch)
    line = make(Exporter())

    class Broken(Exporter):
        def export(self, batch):
            order.append(batch[0])
            if len(order) > 1:
                release.wait(60)
            return Failure()

    def queue(signal, exporter):
        return BatchQueue(Sink(signal, Destination("test", signal), lambda: exporter), line.thread, Gate(), Limits())

    working = Exporter()
    logs, traces = queue("logs", working), queue("traces", Broken())
    traces.emit("span 1")
    assert not traces.force_flush(60)
    logs.emit("log record")
    traces.emit("span 2")
    # Once it hangs, and the others are served, the deadline passes.
    clock.jump(lambda: len(order) > 1, 0.6)
    clock.jump(lambda: working.closed, 1.1)
    LastDelivery(line.thread, clock.at(1), may_hand_over=True).wait()

    assert working.batches == [["log record"]]
    assert order == ["span 1", "span 2"]
    assert traces.sink.lost == 2
    release.set()


def test_reason_of_a_loss_is_not_that_of_another_destination():
    begun, release = threading.Event(), threading.Event()
    line = make(Exporter())

    class Retrying(Exporter):
        def export(self, batch):
            sdk_logging.last_error.note("Transient error Connection refused encountered")
            begun.set()
            release.wait(60)
            return Failure()

    retrying = BatchQueue(Sink("logs", Destination("test", "there"), Retrying), line.thread, Gate(), Limits())
    retrying.emit("log record")
    retrying.thread.post(lambda: retrying.flush(time.monotonic() + 60), time.monotonic() + 60)
    assert begun.wait(60)
    line.sink.give_up([], 1)
    retrying.give_up()
    release.set()
    line.close()

    assert (retrying.sink.reason, line.sink.reason) == ("Connection refused", "no answer in time")


def test_request_to_a_thread_that_is_ending_is_served(monkeypatch):
    line = make(Exporter())
    line.queue.emit(1)
    begun, end = threading.Event(), threading.Event()
    deadline = time.monotonic() + 60

    def close():
        begun.set()
        end.wait(60)
        return line.thread.end_with(lambda: line.queue.flush(deadline))

    line.thread.post(close, deadline)
    assert begun.wait(60)
    start = line.thread.start

    def start_while_it_ends():
        started = start()
        if not end.is_set():
            end.set()
            line.thread.join(deadline)
        return started

    monkeypatch.setattr(line.thread, "start", start_while_it_ends)
    served = threading.Event()
    line.thread.post(lambda: served.set() or True, deadline)

    assert served.wait(60)
    line.close()


def test_request_during_the_wait_for_the_end_of_the_thread_is_served(monkeypatch):
    line, served = make(Exporter()), threading.Event()
    deadline = time.monotonic() + 60

    class Lock:
        """The thread's lock; the moment in which the waiter has it is the one of the request."""

        def __init__(self):
            self._lock = threading.Lock()
            self.locked, self.release = self._lock.locked, self._lock.release

        def acquire(self, blocking=True, timeout=-1):
            acquired = self._lock.acquire(blocking, timeout)
            if timeout >= 0:
                line.thread.post(lambda: served.set() or True, deadline)
            return acquired

    monkeypatch.setattr(line.thread, "_running", Lock())
    line.thread.join(deadline)

    assert served.wait(60)
    line.close()


def test_exporter_is_opened_again_for_what_comes_after_the_end():
    exporters = []

    def opens():
        exporters.append(Exporter())
        return exporters[-1]

    line = Line(opens)
    line.queue.emit(1)
    line.close()
    line.queue.emit(2)
    line.close()

    assert [(exporter.batches, exporter.closed) for exporter in exporters] == [([[1]], True), ([[2]], True)]


def test_first_export_is_early_whatever_the_interval(monkeypatch):
    monkeypatch.setattr("otel_rl.pipeline.batching.FIRST_EXPORT", 0.0)
    exporter = Exporter()
    line = make(exporter, delay=3600.0)
    line.queue.emit(1)

    assert exporter.called.wait(60)
    assert exporter.batches == [[1]]


def test_closed_gate_does_not_make_the_queue_overflow(monkeypatch):
    monkeypatch.setattr(process_identity, "settled", lambda: False)
    exporter = Exporter()
    line = make(exporter, queue=8, batch=2)
    for number in range(3):
        line.queue.emit(number)
    assert line.queue.next_run() > time.monotonic()
    assert exporter.batches == []

    line.queue.emit(3)
    assert exporter.called.wait(60)


def test_thread_that_the_system_refuses_costs_nothing_but_the_items(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("otel_rl.pipeline.io_thread.start_new_thread", refuse)
    line = make(Exporter())
    line.queue.emit(1)

    assert not line.queue.force_flush(3600)


def test_gate_opens_when_the_rank_is_known_or_nothing_distributed_is_loaded(monkeypatch):
    now = [0.0]
    settled = [False]
    monkeypatch.setattr(process_identity, "settled", lambda: settled[0])
    gate = Gate(hold=30, clock=lambda: now[0])

    assert not gate.is_open()
    now[0] = 29
    assert not gate.is_open()
    settled[0] = True
    assert gate.is_open()
    settled[0] = False
    assert gate.is_open()


def test_the_first_export_freezes_the_identity(monkeypatch):
    for name, value in (
        ("_current", process_identity.ProcessIdentity(id="a", rank=1)),
        ("_listeners", []),
        ("_frozen", False),
    ):
        monkeypatch.setattr(process_identity, name, value)
    process_identity.update(id="b")
    assert Gate().is_open()
    process_identity.update(id="c", attempt="1.0.0", rank=2, system="trl", node_rank=1)

    who = process_identity.current()
    assert (who.id, who.attempt, who.rank, who.system, who.node_rank) == ("b", "0.0.0", 1, "trl", 1)


def test_a_rank_that_must_learn_the_run_id_is_waited_for_longer(monkeypatch):
    now = [0.0]
    waiting = process_identity.ProcessIdentity(id="a", rank=1, numbered=True, agreed=False)
    for name, value in (("_current", waiting), ("_listeners", []), ("_frozen", False)):
        monkeypatch.setattr(process_identity, name, value)
    gate = Gate(hold=30, clock=lambda: now[0], meeting=300)
    assert not gate.is_open()
    now[0] = 299
    assert not gate.is_open()
    process_identity.update(id="of-rank-0", agreed=True)
    assert gate.is_open()


def test_gate_opens_after_its_time_at_the_latest(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(process_identity, "settled", lambda: False)
    gate = Gate(hold=30, clock=lambda: now[0])

    assert not gate.is_open()
    now[0] = 130
    assert gate.is_open()


def test_a_program_gives_way_to_a_thread_with_half_a_queue_left_and_not_for_each_item(monkeypatch):
    slept = []
    monkeypatch.setattr(io_thread, "sleep", slept.append)
    monkeypatch.setattr(io_thread, "_WAY_INTERVAL", 60.0)
    exporter = Exporter(block=threading.Event())
    line = make(exporter, queue=8, batch=2)
    line.thread._gave_way = -60.0
    line.queue.emit(0)
    line.queue.emit(1)
    assert exporter.called.wait(60)
    for item in range(4):
        line.queue.emit(item)
    assert slept == []
    for item in range(4):
        line.queue.emit(item)
    assert slept == [io_thread._WAY]
    exporter._block.set()
    line.close()


def test_a_thread_does_not_give_way_to_itself(monkeypatch):
    slept = []
    monkeypatch.setattr(io_thread, "sleep", slept.append)
    thread = IoThread("otel-rl-test")
    assert thread.post(lambda: thread.give_way() is None, time.monotonic() + 60).wait()
    assert slept == []
    thread.give_way()
    assert slept == [io_thread._WAY]
