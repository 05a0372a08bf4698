"""The ring of this process: made late, refused in one line, followed by identity, left behind by a fork, copied."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from opentelemetry import baggage, trace

import otel_rl
from otel_rl.core import instrumentor_status, settings
from otel_rl.flight_recorder import copies, layout, recorder
from otel_rl.flight_recorder import ring as ring_module
from otel_rl.flight_recorder.copies import COPY, Copies
from otel_rl.flight_recorder.reader import read
from otel_rl.process import lifetime, process_identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "process"
    folder.mkdir()
    return folder


def test_nothing_is_recorded_before_the_process_has_an_end_that_removes_the_ring(rings):
    assert not recorder.flight.on
    assert recorder.flight.begin(layout.STEP, "", 1) is None
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("kind", [layout.PHASE, layout.WAIT, layout.TOOL, layout.MODEL_CALL])
def test_a_process_that_trains_nothing_has_no_ring(flight, rings, kind):
    assert flight.begin(kind, "name") is None
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("kind", [layout.STEP, layout.COLLECTIVE])
def test_the_first_step_or_collective_makes_the_ring(flight, rings, kind):
    handle = flight.begin(kind, "name")
    flight.end(handle, False)
    (path,) = rings.iterdir()
    assert path.name.startswith("otel-rl-")
    assert path.name.endswith(f"-{os.getpid()}.ring")
    assert [one.kind for one in read(path).records] == [kind]


def test_what_begins_in_another_thread_while_the_ring_is_made_is_in_it(flight, monkeypatch):
    makes, waits = threading.Event(), threading.Event()
    real = ring_module.create

    def slow(*args: object) -> object:
        makes.set()
        waits.wait(60)
        return real(*args)

    monkeypatch.setattr(ring_module, "create", slow)
    handles: list[object] = []
    first = threading.Thread(target=lambda: handles.append(flight.begin(layout.STEP, "", 1)))
    first.start()
    assert makes.wait(60)
    second = threading.Thread(target=flight.begin, args=(layout.COLLECTIVE, "all_reduce"))
    second.start()
    waits.set()
    first.join()
    second.join()
    assert {one.kind for one in read(flight.ring.path).open} == {layout.STEP, layout.COLLECTIVE}


def test_a_signal_handler_that_interrupts_the_making_gets_no_ring_and_does_not_wait(flight, monkeypatch):
    real, found = ring_module.create, []

    def interrupted(*args: object) -> object:
        found.append(flight.begin(layout.STEP, "", 2))
        return real(*args)

    monkeypatch.setattr(ring_module, "create", interrupted)
    _ = flight.begin(layout.STEP, "", 1)
    assert found == [None]
    assert [one.argument for one in read(flight.ring.path).open] == [1]


def test_a_lock_that_a_signal_handler_has_kept_from_being_given_back_is_replaced(flight, monkeypatch):
    """The handler has raised between the lock and the block that gives it back."""
    monkeypatch.setattr(recorder, "_LONGEST_MAKING", 0.01)
    flight._making.acquire()
    assert flight.begin(layout.STEP, "", 1) is None
    second = flight.begin(layout.STEP, "", 2)
    assert [one.argument for one in read(flight.ring.path).open] == [2]
    flight.end(second)


def test_a_thread_that_makes_its_ring_too_late_uses_that_of_another(flight, rings, monkeypatch):
    makes, goes_on, real = threading.Event(), threading.Event(), ring_module.create
    monkeypatch.setattr(recorder, "_LONGEST_MAKING", 0.01)

    def slow(*args: object) -> object:
        if not makes.is_set():
            makes.set()
            goes_on.wait(60)
        return real(*args)

    monkeypatch.setattr(ring_module, "create", slow)
    handles: list[object] = []
    late = threading.Thread(target=lambda: handles.append(flight.begin(layout.STEP, "", 1)))
    late.start()
    assert makes.wait(60)
    assert flight.begin(layout.STEP, "", 2) is None
    handles.append(flight.begin(layout.STEP, "", 3))
    goes_on.set()
    late.join()
    assert list(rings.iterdir()) == [flight.ring.path]
    assert [one.argument for one in read(flight.ring.path).open] == [3, 1]


def test_rings_of_the_program_before_an_exec_are_removed_and_no_others(flight, rings, monkeypatch):
    """The same process, by boot, pid and start time, as another program."""
    flight.begin(layout.STEP, "", 1)
    mine, before = flight.ring.path, ring_module.create(rings, f"otel-rl-run-host-rank0-{os.getpid()}").path
    of_another = ring_module.create(rings, f"otel-rl-run-host-rank1-{os.getpid()}")
    own = lifetime.own()
    start = own.start_ticks - 1, own.pid_namespace, own.boot_id.encode()
    layout.LIFETIME.pack_into(of_another.buffer, layout.LIFETIME_AT, own.pid, *start)
    flight.disarm()
    flight.arm()
    assert not before.exists()
    assert sorted(rings.iterdir()) == sorted([mine, of_another.path])


def test_the_name_of_the_file_has_room_for_a_long_run_id(flight, rings, monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="run/" * 75))
    flight.begin(layout.STEP, "", 1)
    (path,) = rings.iterdir()
    assert path.name.startswith("otel-rl-run_run_")


def test_off_means_no_ring(rings, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RING", "off")
    settings.reset()
    recorder.flight.arm()
    assert not recorder.flight.on
    assert recorder.flight.begin(layout.STEP, "", 1) is None
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("reason", ["missing", "full", "no posix_fallocate"])
def test_without_room_there_is_no_ring_one_line_and_a_degraded_state(flight, rings, monkeypatch, capfd, reason):
    if reason == "missing":
        rings.rmdir()
    if reason == "full":

        def full(*_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "posix_fallocate", full)
    if reason == "no posix_fallocate":
        monkeypatch.delattr(os, "posix_fallocate")

    assert flight.begin(layout.STEP, "", 1) is None
    assert flight.begin(layout.STEP, "", 2) is None
    assert not flight.on
    assert not rings.exists() or list(rings.iterdir()) == []
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("otel-rl: no flight recorder: cannot make its ring")
    assert "OTEL_RL_RING_DIR" in line
    outcome = instrumentor_status.snapshot()[recorder.NAME]
    assert outcome["state"] == instrumentor_status.DEGRADED
    assert str(rings) in outcome["reason"]


def test_where_its_modules_cannot_be_loaded_there_is_no_ring_and_nobody_asks_again(flight, rings, monkeypatch, capfd):
    asked = _refuse(monkeypatch, "otel_rl.flight_recorder.files", OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert flight.begin(layout.STEP, "", 1) is None
    assert flight.begin(layout.COLLECTIVE, "all_reduce") is None
    assert flight.obtain() is None
    assert len(asked) == 1
    assert not flight.on
    (line,) = capfd.readouterr().err.splitlines()
    assert line == "otel-rl: no flight recorder: its modules could not be loaded (Too many open files)"
    outcome = instrumentor_status.snapshot()[recorder.NAME]
    assert outcome == {"state": instrumentor_status.DEGRADED, "reason": f"no ring in {rings}: Too many open files"}


def test_steps_are_recorded_where_the_ring_cannot_be_loaded(flight, recorded, monkeypatch):
    _refuse(monkeypatch, "otel_rl.flight_recorder.files", PermissionError("an audit hook of the program"))
    for number in (1, 2):
        with otel_rl.step(number):
            pass
    assert [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.loop"] == [1, 2]
    assert not trace.get_current_span().get_span_context().is_valid
    assert baggage.get_all() == {}


def test_a_timeout_of_the_program_while_the_ring_is_loaded_reaches_it_and_the_next_step_makes_the_ring(
    flight, recorded, monkeypatch
):
    class TimeoutOfProgramError(Exception):
        pass

    def handler(*_: object) -> None:
        raise TimeoutOfProgramError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with monkeypatch.context() as patches:
            _call_at_import(patches, "otel_rl.flight_recorder.files", lambda: os.kill(os.getpid(), signal.SIGALRM))
            with pytest.raises(TimeoutOfProgramError), otel_rl.step(1):
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not trace.get_current_span().get_span_context().is_valid
    assert baggage.get_all() == {}
    with otel_rl.step(2):
        assert [one.argument for one in read(flight.ring.path).open] == [2]


def _refuse(monkeypatch: pytest.MonkeyPatch, module: str, error: Exception) -> list[str]:
    """``module``, not loaded yet, fails to load with ``error``; returns the list that grows each time."""
    asked: list[str] = []

    def refuse() -> None:
        asked.append(module)
        raise error

    _call_at_import(monkeypatch, module, refuse)
    return asked


def _call_at_import(monkeypatch: pytest.MonkeyPatch, module: str, call: Callable[[], None]) -> None:
    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == module:
                call()

    package, _, name = module.rpartition(".")
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delattr(sys.modules[package], name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])


def test_the_rank_is_written_when_it_becomes_known(flight, monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="early"))
    flight.begin(layout.COLLECTIVE, "barrier")
    assert (read(flight.ring.path).run_id, read(flight.ring.path).rank) == ("early", None)
    process_identity.update(rank=2, world_size=4)
    found = read(flight.ring.path)
    assert (found.rank, found.world_size) == (2, 4)


def test_a_forked_child_has_a_ring_of_its_own_and_ends_nothing_of_its_parents(flight, rings):
    step = flight.begin(layout.STEP, "", 1)
    child = os.fork()
    if child == 0:
        try:
            flight.end(step, False)
            _ = flight.begin(layout.STEP, "", 2)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    found = {path: read(path) for path in rings.iterdir()}
    mine = found.pop(flight.ring.path)
    assert (mine.records, [one.argument for one in mine.open], mine.last_step[0]) == ([], [1], 1)
    ((path, its),) = found.items()
    assert path.name.endswith(f"-{child}.ring")
    assert (its.lifetime.pid, its.is_alive(), [one.argument for one in its.open]) == (child, False, [2])


def test_a_copy_is_made_at_intervals_and_replaced(flight, folder, monkeypatch):
    one = Copies()
    one.copy_when_due(folder)
    assert list(folder.iterdir()) == []
    flight.begin(layout.STEP, "", 1)
    one.copy_when_due(None)
    one.copy_when_due(folder)
    assert read(folder / COPY).last_step[0] == 1

    flight.begin(layout.STEP, "", 2)
    one.copy_when_due(folder)
    assert read(folder / COPY).last_step[0] == 1
    monkeypatch.setattr(copies, "INTERVAL", 0.0)
    Copies().copy_when_due(folder)
    assert read(folder / COPY).last_step[0] == 2
    assert [path.name for path in folder.iterdir()] == [COPY]
    assert (folder / COPY).stat().st_mode & 0o777 == 0o600


def test_the_heartbeat_aligns_the_clocks(flight):
    one = Copies()
    one.beat()
    flight.begin(layout.STEP, "", 1)
    assert read(flight.ring.path).heartbeat == 0
    one.beat()
    found = read(flight.ring.path)
    assert found.clocks[0] == found.heartbeat > 0


def test_at_an_orderly_end_the_copy_lies_in_the_folder_and_the_ring_is_gone(flight, rings, folder):
    flight.begin(layout.STEP, "", 1)
    Copies().finish(folder, "uncaught ValueError")
    assert list(rings.iterdir()) == []
    assert read(folder / COPY).end_reason == "uncaught ValueError"


def test_a_ring_whose_copy_cannot_be_written_stays(flight, rings, folder):
    flight.begin(layout.STEP, "", 1)
    Copies().finish(folder / "missing", None)
    (path,) = rings.iterdir()
    assert read(path).ended > 0


@pytest.mark.parametrize(("reason", "stays"), [(None, 0), ("uncaught ValueError", 1)])
def test_without_a_folder_only_the_ring_of_a_process_that_failed_stays(flight, rings, reason, stays):
    flight.begin(layout.STEP, "", 1)
    Copies().finish(None, reason)
    assert len(list(rings.iterdir())) == stays
