"""Rings that killed processes have left: which of them go when a ring is made, and which stay."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from otel_rl.flight_recorder import files, layout
from otel_rl.flight_recorder.ring import create
from otel_rl.process import lifetime, process_identity

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0


def _left(directory: Path, run: str, age: float, *, dead: bool = True, boot: str = "") -> Path:
    """A ring whose last sign is ``age`` seconds ago."""
    ring = create(directory, f"{files.prefix(run)}{len(list(directory.iterdir()))}")
    ring.identify(run, "0.0.0", "host", (0, 1, 0))
    wall = time.time_ns() - int(age * 1e9)
    layout.CLOCKS.pack_into(ring.buffer, layout.HEARTBEAT_AT, time.monotonic_ns(), wall)
    own = lifetime.own()
    boot_id, start = (boot or own.boot_id).encode(), own.start_ticks - int(dead)
    layout.LIFETIME.pack_into(ring.buffer, layout.LIFETIME_AT, own.pid, start, own.pid_namespace, boot_id)
    return ring.path


def test_those_of_dead_processes_go_after_a_week(tmp_path):
    old, young = _left(tmp_path, "old", 8 * DAY), _left(tmp_path, "young", 6 * DAY)
    assert files.remove_old(tmp_path, "mine") == [old]
    assert list(tmp_path.iterdir()) == [young]


def test_of_more_than_the_bound_the_oldest_go_and_none_of_the_last_hour(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST", 2)
    paths = [_left(tmp_path, f"run{hours}", hours * 3600.0 + 60) for hours in range(5)]
    assert sorted(files.remove_old(tmp_path, "mine")) == sorted(paths[2:])
    monkeypatch.setattr(files, "MOST", 0)
    assert files.remove_old(tmp_path, "mine") == [paths[1]]
    assert list(tmp_path.iterdir()) == [paths[0]]


@pytest.mark.parametrize("other", ["runs", "is of another boot or machine", "is this run"])
def test_no_ring_of_a_run_goes_that_may_go_on(tmp_path, other):
    killed = _left(tmp_path, "run", 30 * DAY)
    if other == "runs":
        _left(tmp_path, "run", 30 * DAY, dead=False)
    if other.startswith("is of another boot"):
        _left(tmp_path, "run", 30 * DAY, boot="00000000-0000-0000-0000-000000000000")
    assert files.remove_old(tmp_path, "run" if other == "is this run" else "mine") == []
    assert killed.exists()


def test_what_parents_told_of_ends_goes_after_a_week_and_stays_where_somebody_else_wrote_it(tmp_path, monkeypatch):
    old, young = tmp_path / "otel-rl-run-host-1.exits", tmp_path / "otel-rl-run-host-2.exits"
    for path, age in ((old, 8 * DAY), (young, 6 * DAY)):
        path.write_text("{}")
        os.utime(path, (time.time() - age,) * 2)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert files.remove_old(tmp_path, "mine") == []
    monkeypatch.undo()
    assert files.remove_old(tmp_path, "mine") == [old]
    assert list(tmp_path.iterdir()) == [young]


def test_of_more_lists_of_calls_than_the_bound_the_oldest_go_unless_their_process_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST", 2)
    gone = 2**22 + 1
    paths = [tmp_path / f"otel-rl-run-host-pid-{gone + hours}.waits" for hours in range(5)]
    running = tmp_path / f"otel-rl-run-host-pid-{os.getpid()}.waits"
    for hours, path in enumerate([*paths, running]):
        path.write_text("{}")
        os.utime(path, (time.time() - hours * 3600 - 60,) * 2)
    assert sorted(files.remove_old_lists(tmp_path)) == paths[2:]
    assert sorted(tmp_path.iterdir()) == sorted([*paths[:2], running])


def test_what_is_no_ring_of_ours_stays(tmp_path, monkeypatch):
    ring = _left(tmp_path, "old", 30 * DAY)
    (tmp_path / "otel-rl-damaged.ring").write_bytes(b"x" * layout.SIZE)
    renamed = ring.rename(tmp_path / "something.else")
    assert files.remove_old(tmp_path, "mine") == []
    renamed.rename(ring)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert files.remove_old(tmp_path, "mine") == []
    assert ring.exists()


def test_the_first_process_of_a_node_removes_them_before_it_makes_its_ring(flight, rings, monkeypatch):
    old = _left(rings, "old", 30 * DAY)
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=1, local_rank=1))
    flight.begin(layout.STEP, "", 1)
    assert old.exists()
    flight.disarm()
    flight.arm()
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=0, local_rank=0))
    flight.begin(layout.STEP, "", 1)
    assert not old.exists()
