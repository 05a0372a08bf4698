"""Ranks agree on the run and compare clocks over a real c10d store, and never wait for long for one that is silent."""

from __future__ import annotations

import threading
import time

import pytest

from otel_rl.instrumentors.torch_distributed import process_group_init, rendezvous
from otel_rl.instrumentors.torch_distributed.rendezvous import Rendezvous
from otel_rl.process.process_identity import Run

c10d = pytest.importorskip("torch.distributed")

HOUR = 3600.0


@pytest.fixture
def stores():
    """Two clients of one TCP store, as two ranks have."""
    server = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = c10d.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    return c10d.PrefixStore("default_pg", server), c10d.PrefixStore("default_pg", client)


def test_every_rank_receives_what_rank_zero_published(stores):
    leader, follower = Rendezvous(stores[0], 1), Rendezvous(stores[1], 1)
    leader.publish(Run(id="run-7", attempt=3), machine="m")

    assert follower.receive() == rendezvous.Identity("run-7", 3, "m")


def test_a_second_process_group_over_the_same_store_does_not_read_the_first_identity(stores):
    Rendezvous(stores[0], 1).publish(Run(id="old"), machine="m")

    assert Rendezvous(stores[1], 2).receive(patience=0.05) is None


def test_a_silent_rank_zero_costs_only_the_patience(stores):
    started = time.monotonic()

    assert Rendezvous(stores[1], 1).receive(patience=0.1) is None
    assert time.monotonic() - started < 2
    assert Rendezvous(stores[1], 1).measure_offset(patience=0.1) is None


def test_rank_zero_gives_up_on_ranks_that_never_come(stores):
    started = time.monotonic()
    Rendezvous(stores[0], 1).answer(others=1, patience=0.1)

    assert 0.1 <= time.monotonic() - started < 2


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, 0.0])
def test_the_offset_of_another_machines_clock_is_measured(stores, ahead):
    leader = Rendezvous(stores[0], 1)
    follower = Rendezvous(stores[1], 1, wall_clock=lambda: time.time_ns() + int(ahead * 1e9))
    answering = threading.Thread(target=leader.answer, args=(1,))
    answering.start()
    offset = follower.measure_offset()
    follower.done()
    answering.join(timeout=10)

    assert not answering.is_alive()
    assert offset == pytest.approx(ahead, abs=0.05)


def test_ranks_of_one_machine_have_no_offset_and_ask_nobody(stores, monkeypatch):
    monkeypatch.setattr(process_group_init.process_identity, "update", lambda **_: None)
    Rendezvous(stores[0], 1).publish(Run(id="run-7"), rendezvous.boot_id())

    assert process_group_init._follow(Rendezvous(stores[1], 1)) == 0.0
    assert stores[0].add("otel_rl/1/asked", 0) == 0


def test_rank_zero_waits_for_nobody_when_all_ranks_are_local(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert not process_group_init._spans_machines(2)
    assert process_group_init._spans_machines(4)
