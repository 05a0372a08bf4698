"""The queue between the program and an exporter: never blocks, never grows, never loses silently."""

from __future__ import annotations

import threading
import time

import pytest

from otel_rl.pipeline.batching import BatchWorker, Limits
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.process import process_identity
from otel_rl.telemetry import drops


class Result:
    name = "SUCCESS"


class Failure:
    name = "FAILURE"


class Exporter:
    def __init__(self, result=Result, block=None):
        self.batches = []
        self.closed = False
        self._result = result
        self._block = block

    def export(self, batch):
        self.batches.append(list(batch))
        if self._block is not None:
            self._block.wait(10)
        return self._result()

    def shutdown(self):
        self.closed = True


@pytest.fixture(autouse=True)
def no_drops():
    drops.reset()
    yield
    drops.reset()


def make(exporter, **limits):
    return BatchWorker("traces", lambda: exporter, Gate(), Limits(**{"delay": 60.0, **limits}))


def close(worker, seconds=5.0):
    worker.begin_close()
    worker.finish_close(time.monotonic() + seconds)


def test_no_thread_before_the_first_item():
    before = threading.active_count()
    worker = make(Exporter())
    close(worker)

    assert threading.active_count() == before


def test_items_arrive_in_order_and_in_batches_and_the_exporter_is_closed():
    exporter = Exporter()
    worker = make(exporter, batch=3)
    for number in range(7):
        worker.emit(number)
    close(worker)

    assert [item for batch in exporter.batches for item in batch] == list(range(7))
    assert max(map(len, exporter.batches)) <= 3
    assert exporter.closed
    assert (worker.delivered, worker.lost) == (7, 0)


def test_full_queue_drops_the_new_item_and_counts_it():
    release = threading.Event()
    worker = make(Exporter(block=release), queue=4, batch=4)
    for number in range(20):
        worker.emit(number)
    release.set()
    close(worker)

    dropped = drops.snapshot()["traces", "queue_full"]
    assert worker.delivered + dropped == 20


def test_refused_batches_are_counted():
    worker = make(Exporter(Failure))
    worker.emit(1)
    worker.emit(2)
    close(worker)

    assert drops.snapshot() == {("traces", "export_failed"): 2}
    assert worker.lost == 2


def test_exporter_that_hangs_costs_the_time_limit_and_what_is_left_is_counted():
    release = threading.Event()
    worker = make(Exporter(block=release))
    for number in range(3):
        worker.emit(number)
    started = time.monotonic()
    close(worker, 0.2)

    assert time.monotonic() - started < 2
    assert drops.snapshot() == {("traces", "exit_timeout"): 3}
    assert worker.lost == 3
    release.set()


def test_exporter_that_cannot_be_opened_is_counted_as_a_failure(monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    def refuse():
        raise OSError("no exporter")

    worker = BatchWorker("traces", refuse, Gate(), Limits())
    worker.emit(1)
    close(worker)

    assert drops.snapshot() == {("traces", "export_failed"): 1}


def test_flush_waits_for_what_is_queued():
    exporter = Exporter()
    worker = make(exporter)
    worker.emit(1)

    assert worker.force_flush(5)
    assert exporter.batches == [[1]]
    close(worker)


def test_flush_gives_up_after_its_time():
    release = threading.Event()
    worker = make(Exporter(block=release))
    worker.emit(1)

    assert not worker.force_flush(0.2)
    release.set()
    close(worker)


def test_items_after_the_end_are_counted():
    worker = make(Exporter())
    close(worker)
    worker.emit(1)

    assert drops.snapshot() == {("traces", "after_shutdown"): 1}


def test_closed_gate_does_not_make_the_queue_overflow(monkeypatch):
    monkeypatch.setattr(process_identity, "settled", lambda: False)
    exporter = Exporter()
    worker = make(exporter, queue=8, batch=2)
    for number in range(3):
        worker.emit(number)
    time.sleep(0.05)
    assert exporter.batches == []

    worker.emit(3)
    deadline = time.monotonic() + 5
    while worker.delivered < 4 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert worker.delivered == 4
    close(worker)


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
    for name, value in (("_current", process_identity.Run(id="a", rank=1)), ("_listeners", []), ("_frozen", False)):
        monkeypatch.setattr(process_identity, name, value)
    process_identity.update(id="b")
    assert Gate().is_open()
    process_identity.update(id="c", attempt="1.0.0", rank=2, system="trl", node_rank=1)

    who = process_identity.current()
    assert (who.id, who.attempt, who.rank, who.system, who.node_rank) == ("b", "0.0.0", 1, "trl", 1)


def test_a_rank_that_must_learn_the_run_id_is_waited_for_longer(monkeypatch):
    now = [0.0]
    waiting = process_identity.Run(id="a", rank=1, numbered=True, agreed=False)
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
