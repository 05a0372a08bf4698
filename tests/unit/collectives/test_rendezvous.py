"""Ranks agree on one run over a clone of a real c10d store, on a thread of ours."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from otel_rl.instrumentors.torch_distributed import process_group_init, rendezvous
from otel_rl.instrumentors.torch_distributed.rendezvous import Identity
from otel_rl.process import lifetime, process_identity
from otel_rl.process.process_identity import ProcessIdentity
from otel_rl.telemetry import Scope

c10d = pytest.importorskip("torch.distributed")

LEADER = Identity("run-7", "1.0.3", "run-7/1.0.3", "another machine")


@pytest.fixture
def stores():
    """Two clients of one TCP store, as two ranks have."""
    if not hasattr(c10d.Store, "clone"):
        pytest.skip("stores of this torch cannot be cloned (2.4): its ranks do not meet, see rendezvous.can_clone")
    server = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = c10d.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    return c10d.PrefixStore("default_pg", server), c10d.PrefixStore("default_pg", client)


@pytest.fixture
def become(monkeypatch):
    """Set the identity of this process, as at the start of another one: no meeting has taken place."""

    def start(**fields):
        for name, value in (
            ("_frozen", False),
            ("_meeting", False),
            ("_current", ProcessIdentity()),
            ("_listeners", []),
        ):
            monkeypatch.setattr(process_identity, name, value)
        for name, value in (("thread", None), ("over", False), ("clock_offset", None), ("stop", threading.Event())):
            monkeypatch.setattr(process_group_init._Meeting, name, value)
        process_identity.begin(ProcessIdentity(**fields))

    return start


def group(store, rank, world_size=2, backend="gloo"):
    """Stand-in for ``distributed_c10d`` after ``init_process_group``; the store is a real one."""
    return SimpleNamespace(
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
        get_backend=lambda: backend,
        _get_default_store=lambda: store,
    )


def announce(store, rank, world_size=2):
    process_group_init.announce(group(store, rank, world_size), Scope("test"))
    if process_group_init._Meeting.thread is not None:
        process_group_init._Meeting.thread.join(timeout=60)


def test_every_rank_receives_what_rank_zero_published(stores):
    rendezvous.publish(stores[0], LEADER)

    assert rendezvous.receive(stores[1], threading.Event()) == LEADER


def test_a_rank_that_comes_first_waits_for_rank_zero(stores):
    received = []
    waiting = threading.Thread(target=lambda: received.append(rendezvous.receive(stores[1], threading.Event())))
    waiting.start()
    rendezvous.publish(stores[0], LEADER)
    waiting.join(timeout=60)

    assert received == [LEADER]


def test_the_stores_own_time_limit_is_untouched(stores):
    before = stores[1].timeout

    assert rendezvous.receive(stores[1], threading.Event(), time_limit=0.05) is None
    assert stores[1].timeout == before


def test_a_rank_of_a_restarted_job_does_not_read_the_identity_of_the_attempt_before(stores, monkeypatch):
    rendezvous.publish(stores[0], LEADER)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")

    assert rendezvous.receive(stores[1], threading.Event(), time_limit=0.05) is None


def test_a_rank_that_waits_stops_when_told(stores):
    stop = threading.Event()
    waiting = threading.Thread(target=rendezvous.receive, args=(stores[1], stop))
    waiting.start()
    stop.set()
    waiting.join(timeout=60)

    assert not waiting.is_alive()


def test_rank_zero_leaves_one_key_in_the_programs_store_and_the_others_none(stores, become):
    before = stores[0].num_keys()
    become(id="run-7", numbered=True, leads=True, rank=0, steps_key="run-7/0.0.0")
    announce(stores[0], rank=0)
    become(id="other", numbered=True, agreed=False, leads=False, rank=1)
    announce(stores[1], rank=1)

    assert stores[0].num_keys() == before + 1
    assert stores[0].check([rendezvous.key()])


def test_a_rank_takes_over_run_id_attempt_and_step_traces_of_rank_zero(stores, become):
    rendezvous.publish(stores[0], LEADER)
    become(id="other", numbered=True, agreed=False, leads=False, rank=1)
    assert not process_identity.settled()
    announce(stores[1], rank=1)

    who = process_identity.current()
    assert (who.id, who.attempt, who.steps_key) == ("run-7", "1.0.3", "run-7/1.0.3")
    assert process_identity.settled()
    assert process_group_init._Meeting.clock_offset is None


def test_a_rank_on_the_machine_of_rank_zero_has_its_clock(stores, become):
    rendezvous.publish(stores[0], LEADER._replace(boot_id=lifetime.boot_id()))
    become(id="other", agreed=False, leads=False)
    announce(stores[1], rank=1)

    assert process_group_init._Meeting.clock_offset == 0.0


def test_a_rank_that_knows_the_run_from_its_launcher_asks_nobody(stores, become):
    become(id="run-7", numbered=True, agreed=True, leads=False, rank=1, steps_key="run-7/0.0.0")
    announce(stores[1], rank=1)

    assert process_group_init._Meeting.thread is None
    assert process_identity.settled()


def test_a_group_of_one_meets_nobody_and_the_next_group_does(stores, become):
    become(id="run-7", leads=True)
    announce(stores[0], rank=0, world_size=1)
    assert process_group_init._Meeting.thread is None

    announce(stores[0], rank=0, world_size=2)
    assert stores[0].check([rendezvous.key()])


def test_init_process_group_returns_while_rank_zero_is_silent_and_one_failure_is_enough(stores, become, monkeypatch):
    asked = []

    def receive(store, stop):
        asked.append(store)
        silent.wait(60)

    silent = threading.Event()
    monkeypatch.setattr(rendezvous, "receive", receive)
    become(id="other", numbered=True, agreed=False, leads=False, rank=1)
    process_group_init.announce(group(stores[1], rank=1), Scope("test"))
    # The program runs on; what it does now has no name yet.
    assert not process_identity.settled()

    silent.set()
    process_group_init._Meeting.thread.join(timeout=60)
    assert process_identity.settled()
    assert process_identity.current().id == "other"
    process_group_init.announce(group(stores[1], rank=1), Scope("test"))
    assert len(asked) == 1


def test_spawned_ranks_share_steps_of_their_group_only(stores, become):
    become(id="run-7", leads=False)
    announce(stores[0], rank=0)
    leader = process_identity.current()
    become(id="run-7", leads=False)
    announce(stores[1], rank=1)
    follower = process_identity.current()

    assert leader.steps_key == follower.steps_key
    assert leader.steps_key.startswith("run-7/0.0.0/")
    assert (leader.emits_step_roots, follower.emits_step_roots) == (True, False)
    assert not leader.leads


def test_a_frozen_rank_keeps_its_run_id_and_joins_the_step_traces(stores, become):
    rendezvous.publish(stores[0], LEADER)
    become(id="other", numbered=True, agreed=False, leads=False, rank=1)
    process_identity.freeze()
    announce(stores[1], rank=1)

    who = process_identity.current()
    assert (who.id, who.attempt, who.steps_key) == ("other", "0.0.0", LEADER.steps_key)


def test_a_child_of_a_fork_may_join_a_run_although_its_parents_identity_is_frozen(become):
    become(id="run-1", leads=True)
    process_identity.freeze()
    assert process_identity.frozen()
    child = os.fork()
    if child == 0:
        process_identity.after_fork_in_child()
        os._exit(process_identity.frozen())
    assert os.waitpid(child, 0)[1] == 0


def test_stores_that_connect_no_machines_are_left_alone(tmp_path):
    assert not rendezvous.can_clone(c10d.HashStore())
    assert not rendezvous.can_clone(c10d.PrefixStore("p", c10d.FileStore(str(tmp_path / "store"), 1)))


def test_what_others_put_under_our_key_changes_nothing(stores, become):
    stores[0].set(rendezvous.key(), "[1, 2")
    become(id="other", numbered=True, agreed=False, leads=False, rank=1)
    announce(stores[1], rank=1)

    assert process_identity.current().id == "other"
    assert process_identity.settled()
